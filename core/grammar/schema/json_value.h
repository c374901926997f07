// A JSON text as a schema's compiler wants it: members in their order, numbers as they were
// written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::grammar {

struct JsonMember;
struct JsonValue {
  enum class Kind : uint8_t { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool flag = false;
  std::string text;  // of a string; of a number, its digits
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;
  std::vector<uint32_t> by_name;  // of many members: their places, in the order of their names

  bool is_object() const { return kind == Kind::object; }
  bool is_string() const { return kind == Kind::string; }
  // The member of that name; null where there is none.
  const JsonValue* find(std::string_view name) const;
};
struct JsonMember {
  std::string name;
  JsonValue value;
};

// Numbers by what they are worth, objects whatever their order.
bool equal(const JsonValue& a, const JsonValue& b);
// "an object", for messages.
std::string_view kind_name(JsonValue::Kind kind);

// Error: invalid_argument (not JSON, not UTF-8, nested deeper than 64, a key that is there twice).
Result<JsonValue> parse_json_value(std::string_view text);

}  // namespace tenon::grammar
