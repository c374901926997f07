// The parts of JSON as languages: strings, white space, any value, one value.
//
// White space: before an item, a key or a closing bracket, nothing, one space, or a line end
// and up to 32 spaces; after a colon nothing or one space; nowhere else any.
#pragma once

#include <optional>

#include "core/grammar/automaton/expression.h"
#include "core/grammar/schema/json_value.h"

namespace tenon::grammar {

class JsonLanguage {
 public:
  explicit JsonLanguage(Expressions& expressions) : e_(expressions) {}

  ExprId space();  // before an item, a key or a closing bracket
  ExprId comma();  // and the space after it
  ExprId colon();  // likewise
  // A string of so many characters, with its quotes. Any escape may be used.
  ExprId string(uint32_t least = 0, uint32_t most = kUnbounded);
  // What stands between quotes where escapes are as short as they can be.
  ExprId plain_text(uint32_t least, uint32_t most);
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  ExprId any_scalar();
  // Exactly this one, members in their order.
  ExprId value(const JsonValue& value);

  // "[" items "]" or "{" members "}", `least` to `most` of them, all alike.
  ExprId list(char open, ExprId item, char close, uint32_t least, uint32_t most);

 private:
  ExprId any_character();
  ExprId rule_of(std::optional<RuleId>& rule, const char* name, ExprId (JsonLanguage::*body)());
  ExprId value_body();
  ExprId object_body();
  ExprId array_body();
  ExprId string_body();
  ExprId space_body();

  Expressions& e_;
  std::optional<RuleId> value_, object_, array_, string_, space_;
  std::optional<ExprId> character_;
};

}  // namespace tenon::grammar
