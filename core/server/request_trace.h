// The spans of one HTTP request: its own, and below it those of each answer in the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine/records/metrics.h"
#include "core/http/message.h"
#include "core/server/request_log.h"
#include "core/server/trace/tracer.h"

namespace tenon::server {

class RequestTrace {
 public:
  // Null where the request is not traced. `tracer` outlives it.
  static std::unique_ptr<RequestTrace> begin(trace::Tracer* tracer, const http::Request& request);

  // Spans "queue", "prefill" and "decode" of one answer that ended now: from its arrival to its
  // first place in a step, to its first token, to its end. What never began is left out. `now_ns`
  // is of the engine's clock, whose times the record has. [any thread]
  void add(const RequestRecord& record, std::string_view reason, int64_t now_ns);
  // Hands all of them over, the request's own span with what its line of the log has.
  void end(const LogEntry& entry);

 private:
  RequestTrace(trace::Tracer& tracer, trace::Tracer::Begun begun);
  trace::Span child(const char* name, int64_t start_ns, int64_t end_ns) const;

  trace::Tracer& tracer_;
  const trace::Tracer::Begun begun_;
  const int64_t start_ns_;  // since 1970
  std::mutex mutex_;
  std::vector<trace::Span> spans_;
};

}  // namespace tenon::server
