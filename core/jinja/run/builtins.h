// What templates can call by name: filters, tests, methods and functions. The parser looks names up
// here, so what is not in these tables is refused when a template is loaded, or where only some
// conversations reach it, when one does.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/jinja/value.h"

namespace tenon::chat {

class Interpreter;

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
  bool empty() const { return positional.empty() && named.empty(); }
};

struct Filter {
  std::string_view name;
  Result<Value> (*run)(Interpreter& run, const Value& value, const Arguments& arguments);
};
struct Test {
  std::string_view name;
  Result<bool> (*run)(Interpreter& run, const Value& value, const Arguments& arguments);
};
struct Function {
  std::string_view name;
  Result<Value> (*run)(Interpreter& run, const Arguments& arguments);
};
struct MethodEntry {
  std::string_view name;
  Result<Value> (*run)(Interpreter& run, const Value& self, const Arguments& arguments);
};
// A method of a value, on its way to being called.
struct Method {
  Value self;
  const MethodEntry* entry;
};

// Null when there is none of that name.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
const Function* find_function(std::string_view name);
// Of values of this type.
const MethodEntry* find_method(const Value& self, std::string_view name);
// Whether values of any type have it.
bool is_method_name(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();
std::vector<std::string> method_names();
// What to say where one is missing.
std::string no_such_filter(std::string_view name);
std::string no_such_test(std::string_view name);

// The tables, one a file.
std::span<const Filter> text_filters();
std::span<const Filter> list_filters();
std::span<const Filter> selection_filters();
std::span<const Filter> number_filters();
std::span<const Filter> markup_filters();
std::span<const Filter> layout_filters();
std::span<const Filter> value_filters();
std::span<const MethodEntry> text_methods();
std::span<const MethodEntry> text_search_methods();
std::span<const MethodEntry> list_methods();
std::span<const MethodEntry> dict_methods();
std::span<const MethodEntry> loop_methods();

// What a call gives to parameters of these names; null for what it leaves out.
// Errors (invalid_argument): more than that, a name that there is not, one of the first `required`
// left out.
using Bound = std::vector<const Value*>;
Result<Bound> bind(std::string_view callee, const Arguments& arguments,
                   std::initializer_list<std::string_view> names, size_t required = 0);
// A bound argument as what it must be. Null gives `otherwise`.
Result<Integer> whole_argument(std::string_view callee, const Value* value, Integer otherwise);
Result<bool> flag_argument(const Value* value, bool otherwise);
// Null for what is left out or none.
Result<const MarkedText*> text_argument(std::string_view callee, const Value* value);

}  // namespace tenon::chat
