#include "core/server/request_trace.h"

#include <chrono>

namespace tenon::server {
namespace {

int64_t since_1970_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string field_of(const http::Request& request, std::string_view name) {
  const std::string* value = request.find(name);
  return value == nullptr ? std::string() : *value;
}

}  // namespace

std::unique_ptr<RequestTrace> RequestTrace::begin(trace::Tracer* tracer,
                                                  const http::Request& request) {
  if (tracer == nullptr) return nullptr;
  auto begun = tracer->begin(field_of(request, "traceparent"), field_of(request, "tracestate"));
  if (!begun) return nullptr;
  return std::unique_ptr<RequestTrace>(new RequestTrace(*tracer, *std::move(begun)));
}

RequestTrace::RequestTrace(trace::Tracer& tracer, trace::Tracer::Begun begun)
    : tracer_(tracer), begun_(std::move(begun)), start_ns_(since_1970_ns()) {}

trace::Span RequestTrace::child(const char* name, int64_t start_ns, int64_t end_ns) const {
  return {.trace_id = begun_.context.trace_id,
          .span_id = trace::fresh_span_id(),
          .parent_id = begun_.context.span_id,
          .trace_state = begun_.context.state,
          .name = name,
          .start_ns = start_ns,
          .end_ns = end_ns};
}

void RequestTrace::add(const RequestRecord& record, std::string_view reason, int64_t now_ns) {
  const int64_t shift = since_1970_ns() - now_ns;
  const bool was_admitted = record.admitted_ns >= 0;
  const bool has_token = !record.token_ns.empty();
  std::vector<trace::Span> made;
  const auto from_to = [&](const char* name, int64_t start_ns, int64_t end_ns) -> trace::Span& {
    made.push_back(child(name, start_ns + shift, end_ns + shift));
    made.back().attributes.emplace_back("tenon.sample", int64_t{record.sample});
    return made.back();
  };
  from_to("queue", record.arrival_ns, was_admitted ? record.admitted_ns : record.end_ns);
  if (was_admitted) {
    const int64_t first_ns = has_token ? record.token_ns.front() : record.end_ns;
    trace::Span& prefill = from_to("prefill", record.admitted_ns, first_ns);
    prefill.attributes.emplace_back("tenon.prompt_tokens", int64_t{record.prompt_tokens});
    prefill.attributes.emplace_back("tenon.cached_tokens", int64_t{record.reused_tokens});
  }
  if (has_token) {
    trace::Span& decode = from_to("decode", record.token_ns.front(), record.end_ns);
    decode.attributes.emplace_back("tenon.tokens", int64_t{record.generated_tokens});
    decode.attributes.emplace_back("tenon.preemptions", int64_t{record.preemptions});
    decode.attributes.emplace_back("tenon.drafted_tokens", int64_t{record.drafted_tokens});
    decode.attributes.emplace_back("tenon.accepted_tokens", int64_t{record.accepted_tokens});
  }
  made.back().attributes.emplace_back("tenon.finish_reason", std::string(reason));
  const std::lock_guard lock(mutex_);
  std::move(made.begin(), made.end(), std::back_inserter(spans_));
}

void RequestTrace::end(const LogEntry& entry) {
  trace::Span whole{.trace_id = begun_.context.trace_id,
                    .span_id = begun_.context.span_id,
                    .parent_id = begun_.parent_id,
                    .trace_state = begun_.context.state,
                    .name = entry.method + " " + entry.path,
                    .kind = trace::SpanKind::server,
                    .start_ns = start_ns_,
                    .end_ns = since_1970_ns()};
  auto& attributes = whole.attributes;
  attributes.emplace_back("http.request.method", entry.method);
  attributes.emplace_back("url.path", entry.path);
  attributes.emplace_back("http.response.status_code", int64_t{entry.status});
  attributes.emplace_back("client.address", entry.peer);
  attributes.emplace_back("tenon.request_id", entry.id);
  if (!entry.model.empty()) attributes.emplace_back("gen_ai.request.model", entry.model);
  if (entry.prompt_tokens + entry.generated_tokens > 0) {
    attributes.emplace_back("gen_ai.usage.input_tokens", static_cast<int64_t>(entry.prompt_tokens));
    attributes.emplace_back("gen_ai.usage.output_tokens",
                            static_cast<int64_t>(entry.generated_tokens));
  }
  if (entry.aborted || entry.status >= 500 || !entry.error.empty()) {
    whole.failed = true;
    whole.message = entry.aborted         ? "the client went away, or read too slowly"
                    : entry.error.empty() ? "it failed"
                                          : entry.error;
  }
  std::vector<trace::Span> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(spans_);
  }
  all.push_back(std::move(whole));
  tracer_.add(std::move(all));
}

}  // namespace tenon::server
