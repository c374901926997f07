#include "core/server/trace/span.h"

#include <nlohmann/json.hpp>

namespace tenon::trace {
namespace {

using Json = nlohmann::ordered_json;

Json attribute(std::string_view key, const std::variant<std::string, int64_t>& value) {
  const auto* text = std::get_if<std::string>(&value);
  Json typed = text != nullptr ? Json{{"stringValue", *text}}
                               : Json{{"intValue", std::to_string(std::get<int64_t>(value))}};
  return {{"key", key}, {"value", std::move(typed)}};
}

Json as_json(const Span& span) {
  constexpr int kError = 2;
  Json attributes = Json::array();
  for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
  Json json = {{"traceId", span.trace_id},
               {"spanId", span.span_id},
               {"name", span.name},
               {"kind", static_cast<int>(span.kind)},
               {"startTimeUnixNano", std::to_string(span.start_ns)},
               {"endTimeUnixNano", std::to_string(span.end_ns)},
               {"attributes", std::move(attributes)}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  if (!span.trace_state.empty()) json["traceState"] = span.trace_state;
  if (span.failed) json["status"] = {{"code", kError}, {"message", span.message}};
  return json;
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, std::string_view service,
                      std::string_view version) {
  Json all = Json::array();
  for (const Span& span : spans) all.push_back(as_json(span));
  const Json of_service = {{"attributes",
                            {attribute("service.name", std::string(service)),
                             attribute("service.version", std::string(version))}}};
  Json scope = {{"scope", {{"name", "tenon"}, {"version", version}}}, {"spans", std::move(all)}};
  Json scopes = Json::array();
  scopes.push_back(std::move(scope));
  Json resources = Json::array();
  resources.push_back({{"resource", of_service}, {"scopeSpans", std::move(scopes)}});
  const Json body = {{"resourceSpans", std::move(resources)}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tenon::trace
