// Which values a parameter of a tool may have, as its schema says.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::chat {

// The types of JSON Schema. A number is a fraction here: whole numbers are of a type of their own.
enum class JsonType : uint8_t {
  text = 1,
  fraction = 2,
  integer = 4,
  boolean = 8,
  null = 16,
  list = 32,
  object = 64
};
using JsonTypes = uint8_t;
inline constexpr JsonTypes kAllJsonTypes = 127;

struct AllowedValues {
  JsonTypes types = kAllJsonTypes;                // all values of these types
  std::map<std::string, JsonTypes> members = {};  // and these, as `member_key` writes them

  bool is_anything() const { return types == kAllJsonTypes; }
  bool is_nothing() const { return types == 0 && members.empty(); }
  bool allows_type(JsonType type) const { return (types & static_cast<JsonTypes>(type)) != 0; }
  bool allows(const nlohmann::ordered_json& value) const;
  bool may_be_text() const;
  // A text, or null: nothing else.
  bool is_text_or_null() const;
  bool may_be_null() const;
};

JsonTypes json_type_of(const nlohmann::ordered_json& value);
// One spelling for equal values: 1 and 1.0, objects in another order.
std::string member_key(const nlohmann::ordered_json& value);

AllowedValues allowed_in_either(AllowedValues a, const AllowedValues& b);
AllowedValues allowed_in_both(const AllowedValues& a, const AllowedValues& b);

struct ParameterSchema {
  AllowedValues values;
  // Whether the tool may have a parameter of this name: it lists it, or lists none at all.
  bool is_expected = true;
};

// Where a value stands in the arguments of a tool: the names of members, and "" for an item of a
// list.
using ValuePath = std::vector<std::string>;

// What `schema`, that of a tool's parameters, says of the value at `path`. Sees through
// allOf, anyOf, oneOf, if, $ref and $dynamicRef into the same schema, enum, const and nullable, of
// the parameters as a whole too. A schema that takes more than 100,000 steps to look through, or
// that allows no value, says nothing.
ParameterSchema schema_of_value(const nlohmann::ordered_json& schema,
                                std::span<const std::string> path);

// The value that a model wrote without saying its type, as JSON:
// a text that `enum` or `const` names is that text; JSON of another type that is allowed, or one of
// Python's words True, False and None, is that value; where texts are allowed all else is a text;
// where they are not, it is JSON, else a literal of Python of a type that is allowed, else a text.
std::string argument_json(const AllowedValues& allowed, std::string_view text);

}  // namespace tenon::chat
