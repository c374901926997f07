#include "core/grammar/schema/json_language.h"

#include <utility>

#include "core/grammar/notation/text_form.h"
#include "core/grammar/schema/number_language.h"

namespace tenon::grammar {
namespace {

constexpr uint32_t kMostIndent = 32;

CodeSet hex_digits() {
  return {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
}

}  // namespace

ExprId JsonLanguage::rule_of(std::optional<RuleId>& rule, const char* name,
                             ExprId (JsonLanguage::*body)()) {
  if (!rule) {
    rule = e_.add_rule(name);
    e_.define(*rule, (this->*body)());
  }
  return e_.rule(*rule);
}

ExprId JsonLanguage::space() {
  return rule_of(space_, "space", &JsonLanguage::space_body);
}

ExprId JsonLanguage::space_body() {
  return e_.choice({e_.empty(), e_.literal(" "),
                    e_.sequence({e_.literal("\n"), e_.repeat(e_.literal(" "), 0, kMostIndent)})});
}

ExprId JsonLanguage::comma() {
  return e_.sequence({e_.literal(","), space()});
}

ExprId JsonLanguage::colon() {
  return e_.sequence({e_.literal(":"), e_.optional(e_.literal(" "))});
}

// A character of a string, with every escape that there is; a pair of surrogates is one character.
ExprId JsonLanguage::any_character() {
  if (character_) return *character_;
  const ExprId hex = e_.character(hex_digits());
  const ExprId other_plane = e_.sequence(
      {e_.choice({e_.sequence({e_.character(hex_digits().without(CodeSet::of("dD"))), hex}),
                  e_.sequence({e_.character("dD"), e_.character("01234567")})}),
       hex, hex});
  const ExprId pair =
      e_.sequence({e_.character("dD"), e_.character("89abAB"), hex, hex, e_.literal("\\u"),
                   e_.character("dD"), e_.character("cdefCDEF"), hex, hex});
  const ExprId escape =
      e_.sequence({e_.literal("\\"),
                   e_.choice({e_.character("\"\\/bfnrt"),
                              e_.sequence({e_.literal("u"), e_.choice({other_plane, pair})})})});
  character_ = e_.choice({e_.character(plain_characters()), escape});
  return *character_;
}

ExprId JsonLanguage::string(uint32_t least, uint32_t most) {
  if (least == 0 && most == kUnbounded) {
    return rule_of(string_, "string", &JsonLanguage::string_body);
  }
  const ExprId quote = e_.literal("\"");
  return e_.sequence({quote, e_.repeat(any_character(), least, most), quote});
}

ExprId JsonLanguage::string_body() {
  const ExprId quote = e_.literal("\"");
  return e_.sequence({quote, e_.any_number(any_character()), quote});
}

ExprId JsonLanguage::plain_text(uint32_t least, uint32_t most) {
  return e_.repeat(write_character(e_, CodeSet::all(), TextForm::json_string), least, most);
}

ExprId JsonLanguage::any_scalar() {
  const ExprId number = *number_language(e_, {});  // without limits it cannot fail
  return e_.choice({string(), number, e_.literal("true"), e_.literal("false"), e_.literal("null")});
}

ExprId JsonLanguage::value_body() {
  return e_.choice({any_scalar(), any_object(), any_array()});
}

ExprId JsonLanguage::any_value() {
  if (!value_) {
    value_ = e_.add_rule("value");  // known before its body, which has values inside
    e_.define(*value_, value_body());
  }
  return e_.rule(*value_);
}

ExprId JsonLanguage::object_body() {
  return list('{', e_.sequence({string(), colon(), any_value()}), '}', 0, kUnbounded);
}

ExprId JsonLanguage::array_body() {
  return list('[', any_value(), ']', 0, kUnbounded);
}

ExprId JsonLanguage::any_object() {
  if (!object_) {
    object_ = e_.add_rule("object");
    e_.define(*object_, object_body());
  }
  return e_.rule(*object_);
}

ExprId JsonLanguage::any_array() {
  if (!array_) {
    array_ = e_.add_rule("array");
    e_.define(*array_, array_body());
  }
  return e_.rule(*array_);
}

ExprId JsonLanguage::list(char open, ExprId item, char close, uint32_t least, uint32_t most) {
  const ExprId begin = e_.sequence({e_.literal(std::string(1, open)), space()});
  const ExprId end = e_.literal(std::string(1, close));
  if (most == 0) return e_.sequence({begin, end});
  const uint32_t more = most == kUnbounded ? kUnbounded : most - 1;
  const ExprId items = e_.sequence(
      {item, e_.repeat(e_.sequence({comma(), item}), least == 0 ? 0 : least - 1, more), space()});
  return e_.sequence({begin, least == 0 ? e_.optional(items) : items, end});
}

ExprId JsonLanguage::value(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      return e_.literal("null");
    case JsonValue::Kind::boolean:
      return e_.literal(value.flag ? "true" : "false");
    case JsonValue::Kind::number:
      return e_.literal(value.text);
    case JsonValue::Kind::string:
      return e_.literal("\"" + json_escaped(value.text) + "\"");
    default:
      break;
  }
  const bool is_object = value.is_object();
  std::vector<ExprId> parts = {e_.literal(is_object ? "{" : "["), space()};
  for (const auto& [name, member] : value.members) {
    if (parts.size() > 2) parts.push_back(comma());
    parts.push_back(e_.literal("\"" + json_escaped(name) + "\""));
    parts.push_back(colon());
    parts.push_back(this->value(member));
  }
  for (const JsonValue& item : value.items) {
    if (parts.size() > 2) parts.push_back(comma());
    parts.push_back(this->value(item));
  }
  if (parts.size() > 2) parts.push_back(space());
  parts.push_back(e_.literal(is_object ? "}" : "]"));
  return e_.sequence(std::move(parts));
}

}  // namespace tenon::grammar
