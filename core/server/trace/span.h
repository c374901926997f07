// A span of a trace, and a batch of them as OpenTelemetry's collectors take it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::trace {

enum class SpanKind : uint8_t { internal = 1, server = 2 };  // OTLP's numbers

struct Span {
  std::string trace_id, span_id;  // as in TraceContext
  std::string parent_id = {};     // empty: it is the first of its trace
  std::string trace_state = {};
  std::string name;
  SpanKind kind = SpanKind::internal;
  int64_t start_ns = 0, end_ns = 0;  // since 1970
  std::vector<std::pair<std::string, std::variant<std::string, int64_t>>> attributes = {};
  bool failed = false;
  std::string message = {};  // why
};

// The body of a request to /v1/traces (OTLP 1.x over HTTP, as JSON): int64 and ids are text there,
// ids in hexadecimal digits. Texts need not be UTF-8.
std::string otlp_json(std::span<const Span> spans, std::string_view service,
                      std::string_view version);

}  // namespace tenon::trace
