// Who a request belongs to in a trace, as it is passed on between services (W3C Trace Context).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::trace {

struct TraceContext {
  std::string trace_id;  // 32 lower-case hexadecimal digits, not all 0
  std::string span_id;   // 16 of them: the span that this one belongs to
  bool sampled = false;
  std::string state;  // tracestate, as it came
};

// Of the header fields "traceparent" and "tracestate" (empty: there is none). Nothing where the
// first is not what the standard says: a trace of its own begins then.
std::optional<TraceContext> parse_trace_context(std::string_view traceparent,
                                                std::string_view tracestate);

// Never twice, and not to be guessed from others.
std::string fresh_trace_id();
std::string fresh_span_id();

}  // namespace tenon::trace
