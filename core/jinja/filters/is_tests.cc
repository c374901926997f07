// Tests: the words after `is`.
#include <algorithm>

#include "core/jinja/compare.h"
#include "core/jinja/run/interpreter.h"
#include "core/jinja/run/operators.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

using Condition = bool (*)(const Value&);

template <Condition kHolds>
Result<bool> plain(Interpreter&, const Value& value, const Arguments& arguments) {
  if (!arguments.empty()) return invalid_argument("this test takes no argument");
  return kHolds(value);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_string(const Value& value) {
  return value.is_text();
}
bool is_mapping(const Value& value) {
  return value.dict() != nullptr;
}
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.list() != nullptr ||
         value.dict() != nullptr;
}
// What has a length and items: also texts and dictionaries, but no views.
bool is_sequence(const Value& value) {
  const List* list = value.list();
  if (list != nullptr) return list->is_sequence() || list->kind == ListKind::range;
  return value.is_text() || value.dict() != nullptr || value.is_undefined();
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_integer(const Value& value) {
  return value.is_integer();
}
bool is_float(const Value& value) {
  return value.is_real();
}
bool is_boolean(const Value& value) {
  return value.is_boolean();
}
bool is_true_value(const Value& value) {
  return value.is_boolean() && value.boolean();
}
bool is_false_value(const Value& value) {
  return value.is_boolean() && !value.boolean();
}
bool is_callable(const Value& value) {
  return value.is_callable();
}

Result<bool> has_remainder(const Value& value, Integer divisor, Integer remainder, Budget& budget) {
  TENON_ASSIGN_OR_RETURN(const Value rest,
                         apply_operator(Operator::modulo, value, Value(divisor), budget));
  return are_equal(rest, Value(remainder), &budget);
}
Result<bool> is_odd(Interpreter& run, const Value& value, const Arguments&) {
  return has_remainder(value, 2, 1, run.budget());
}
Result<bool> is_even(Interpreter& run, const Value& value, const Arguments&) {
  return has_remainder(value, 2, 0, run.budget());
}
Result<bool> is_divisible(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("divisibleby", arguments, {"num"}, 1));
  TENON_ASSIGN_OR_RETURN(const Integer divisor, whole_argument("divisibleby", bound[0], 1));
  return has_remainder(value, divisor, 0, run.budget());
}

template <Operator kOperation>
Result<bool> compares(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("a comparison", arguments, {"other"}, 1));
  return compare_values(kOperation, value, *bound[0], run.budget());
}

Result<bool> is_same(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("sameas", arguments, {"other"}, 1));
  const Value& other = *bound[0];
  if (value.list() != nullptr || value.dict() != nullptr) {
    return value.list() == other.list() && value.dict() == other.dict();
  }
  return type_name(value) == type_name(other) && are_equal(value, other, &run.budget());
}

bool is_escaped(const Value& value) {
  return value.is_text() && value.text_object()->is_markup;
}
bool is_filter(const Value& value) {
  return value.is_text() && find_filter(value.bytes()) != nullptr;
}
bool is_test(const Value& value) {
  return value.is_text() && find_test(value.bytes()) != nullptr;
}

// All letters in one case, and at least one letter.
template <bool kUpper>
Result<bool> has_case(Interpreter&, const Value& value, const Arguments&) {
  if (!value.is_text()) return type_error("tested for its case", value);
  bool has_letter = false;
  for (size_t at = 0; at < value.bytes().size();) {
    const tok::Rune rune = tok::first_rune(value.bytes().substr(at));
    if (kUpper ? tok::is_lower(rune.code) : tok::is_upper(rune.code)) return false;
    has_letter |= kUpper ? tok::is_upper(rune.code) : tok::is_lower(rune.code);
    at += rune.bytes;
  }
  return has_letter;
}

constexpr Test kTests[] = {{"defined", plain<is_defined>},
                           {"undefined", plain<is_undefined>},
                           {"none", plain<is_none>},
                           {"string", plain<is_string>},
                           {"mapping", plain<is_mapping>},
                           {"iterable", plain<is_iterable>},
                           {"sequence", plain<is_sequence>},
                           {"number", plain<is_number>},
                           {"integer", plain<is_integer>},
                           {"float", plain<is_float>},
                           {"boolean", plain<is_boolean>},
                           {"true", plain<is_true_value>},
                           {"false", plain<is_false_value>},
                           {"callable", plain<is_callable>},
                           {"escaped", plain<is_escaped>},
                           {"filter", plain<is_filter>},
                           {"test", plain<is_test>},
                           {"odd", is_odd},
                           {"even", is_even},
                           {"divisibleby", is_divisible},
                           {"equalto", compares<Operator::equal>},
                           {"eq", compares<Operator::equal>},
                           {"==", compares<Operator::equal>},
                           {"ne", compares<Operator::unequal>},
                           {"!=", compares<Operator::unequal>},
                           {"lt", compares<Operator::less>},
                           {"lessthan", compares<Operator::less>},
                           {"<", compares<Operator::less>},
                           {"le", compares<Operator::less_equal>},
                           {"<=", compares<Operator::less_equal>},
                           {"gt", compares<Operator::greater>},
                           {"greaterthan", compares<Operator::greater>},
                           {">", compares<Operator::greater>},
                           {"ge", compares<Operator::greater_equal>},
                           {">=", compares<Operator::greater_equal>},
                           {"in", compares<Operator::in>},
                           {"sameas", is_same},
                           {"upper", has_case<true>},
                           {"lower", has_case<false>}};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [&](const Test& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  for (const Test& test : kTests) names.emplace_back(test.name);
  return names;
}

}  // namespace tenon::chat
