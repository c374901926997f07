#include "core/chat/calls/allowed_values.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/text.h"
#include "core/chat/calls/python_literal.h"
#include "core/chat/calls/tool_types.h"
#include "core/jinja/json_values.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

constexpr double kExactWholes = 9007199254740992.0;  // 2^53: beyond it, doubles skip whole numbers

bool is_whole(double value) {
  return std::abs(value) <= kExactWholes && std::nearbyint(value) == value;
}

std::string quoted(std::string_view text) {
  return '"' + escaped_json(text) + '"';
}

}  // namespace

JsonTypes json_type_of(const ordered_json& value) {
  const auto type = [&] {
    if (value.is_string()) return JsonType::text;
    if (value.is_boolean()) return JsonType::boolean;
    if (value.is_null()) return JsonType::null;
    if (value.is_array()) return JsonType::list;
    if (value.is_object()) return JsonType::object;
    const bool whole = value.is_number_integer() || is_whole(value.get<double>());
    return whole ? JsonType::integer : JsonType::fraction;
  };
  return static_cast<JsonTypes>(type());
}

std::string member_key(const ordered_json& value) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  if (value.is_number_float() && is_whole(value.get<double>())) {
    return std::to_string(static_cast<int64_t>(value.get<double>()));
  }
  return nlohmann::json(value).dump(-1, ' ', false, kReplace);
}

bool AllowedValues::allows(const ordered_json& value) const {
  return (types & json_type_of(value)) != 0 || members.contains(member_key(value));
}

bool AllowedValues::may_be_text() const {
  if (allows_type(JsonType::text)) return true;
  for (const auto& member : members) {
    if (member.second == static_cast<JsonTypes>(JsonType::text)) return true;
  }
  return false;
}

bool AllowedValues::may_be_null() const {
  return allows_type(JsonType::null) || members.contains("null");
}

bool AllowedValues::is_text_or_null() const {
  constexpr auto kText = static_cast<JsonTypes>(JsonType::text);
  constexpr auto kNull = static_cast<JsonTypes>(JsonType::null);
  JsonTypes all = types;
  for (const auto& member : members) all |= member.second;
  return (all & kText) != 0 && (all & ~(kText | kNull)) == 0;
}

AllowedValues allowed_in_either(AllowedValues a, const AllowedValues& b) {
  a.types |= b.types;
  a.members.insert(b.members.begin(), b.members.end());
  return a;
}

AllowedValues allowed_in_both(const AllowedValues& a, const AllowedValues& b) {
  AllowedValues common;
  common.types = a.types & b.types;
  const auto add = [&common](const AllowedValues& from, const AllowedValues& other) {
    for (const auto& [key, type] : from.members) {
      if ((other.types & type) != 0 || other.members.contains(key)) common.members[key] = type;
    }
  };
  add(a, b);
  add(b, a);
  return common;
}

std::string argument_json(const AllowedValues& allowed, std::string_view text) {
  if (allowed.is_anything()) return unquoted_value_json(text);
  if (allowed.members.contains(member_key(ordered_json(text)))) return quoted(text);
  const std::string_view bare = trim(text);
  std::string written = bare == "True"    ? "true"
                        : bare == "False" ? "false"
                        : bare == "None"  ? "null"
                                          : std::string(text);
  const Result<ordered_json> json = parse_json_text(written);
  if (json.ok() && !json->is_string() && allowed.allows(*json)) return written;
  if (allowed.may_be_text()) return quoted(text);
  if (json.ok()) return written;
  if (const std::optional<std::string> literal = python_literal_json(bare)) {
    const Result<ordered_json> value = parse_json_text(*literal);
    if (value.ok() && allowed.allows(*value)) return *literal;
  }
  return quoted(text);
}

}  // namespace tenon::chat
