#include "core/server/api/read/json.h"

#include "core/base/json/json_builder.h"
#include "core/base/quote.h"

namespace tenon::api {
namespace {

constexpr size_t kDeepest = 64;
constexpr size_t kMostKeys = 4096;

}  // namespace

Outcome<Json> parse_body(std::string_view text) {
  if (text.empty()) return ApiError{.message = "the body is empty – expected a JSON object"};
  Json body;
  // Readers of JSON differ in which of several members of one name they keep.
  const JsonFault fault = build_json(text, {.levels = kDeepest, .keys = kMostKeys}, body);
  switch (fault.kind) {
    case JsonFault::Kind::none:
      break;
    case JsonFault::Kind::syntax:
      return ApiError{.message = "the body is not JSON: " + fault.text};
    case JsonFault::Kind::levels:
      return ApiError{.message = "the body is nested deeper than 64 levels – make it flatter"};
    case JsonFault::Kind::keys:
      return ApiError{.message =
                          "an object of the body has more than 4096 keys – that is the limit "
                          "– send fewer"};
    case JsonFault::Kind::twice:
      return ApiError{.message = in_quotes(fault.text) + " stands there twice – keep one",
                      .param = one_line(fault.text)};
  }
  if (!body.is_object()) return ApiError{.message = "the body is not a JSON object"};
  return body;
}

Json from_text(std::string_view text) {
  Json json;
  if (build_json(text, {.once = false}, json).kind != JsonFault::Kind::none) return Json();
  return json;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_event(const Json& json, std::string& out, std::string_view name) {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(to_text(json)).append("\n\n");
}

}  // namespace tenon::api
