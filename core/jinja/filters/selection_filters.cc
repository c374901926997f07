// Filters that call a test or another filter for every item. The parser has looked those names up
// where they are written out.
#include "core/jinja/compare.h"
#include "core/jinja/ordering.h"

namespace tenon::chat {
namespace {

// Arguments from position `from` on, and all named ones.
Arguments rest_of(const Arguments& arguments, size_t from) {
  Arguments rest;
  for (size_t i = from; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  rest.named = arguments.named;
  return rest;
}

Result<std::string> name_at(const Arguments& arguments, size_t index) {
  const Value& name = arguments.positional[index];
  if (!name.is_text()) return type_error("the name of a filter or a test", name);
  return std::string(name.bytes());
}

// What is false has none, of whatever type it is: templates filter `tools`, which may be none.
Result<Values> items_if_any(Interpreter& run, const Value& value) {
  return is_true(value) ? run.items_of(value) : Values();
}

// select(test, …) and selectattr(attribute, test, …), and their opposites.
Result<Value> choose(Interpreter& run, const Value& value, const Arguments& arguments,
                     bool by_attribute, bool keeps) {
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) {
    return invalid_argument("'selectattr' and 'rejectattr' need the name of an attribute");
  }
  const Test* test = nullptr;
  if (arguments.positional.size() > test_at) {
    TENON_ASSIGN_OR_RETURN(const std::string name, name_at(arguments, test_at));
    test = find_test(name);
    if (test == nullptr) return unsupported(no_such_test(name));
  }
  const Arguments rest = rest_of(arguments, test_at + 1);
  TENON_ASSIGN_OR_RETURN(Values values, items_if_any(run, value));
  Values kept;
  for (Value& item : values) {
    Value tested = item;
    if (by_attribute) {
      TENON_ASSIGN_OR_RETURN(tested, value_at(run, item, arguments.positional[0]));
    }
    bool holds = is_true(tested);
    if (test != nullptr) {
      TENON_ASSIGN_OR_RETURN(holds, test->run(run, tested, rest));
    }
    if (holds == keeps) kept.push_back(std::move(item));
  }
  return run.list(std::move(kept), ListKind::generator);
}

Result<Value> select(Interpreter& run, const Value& value, const Arguments& arguments) {
  return choose(run, value, arguments, false, true);
}
Result<Value> reject(Interpreter& run, const Value& value, const Arguments& arguments) {
  return choose(run, value, arguments, false, false);
}
Result<Value> select_by(Interpreter& run, const Value& value, const Arguments& arguments) {
  return choose(run, value, arguments, true, true);
}
Result<Value> reject_by(Interpreter& run, const Value& value, const Arguments& arguments) {
  return choose(run, value, arguments, true, false);
}

Result<Value> map_attribute(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("map", arguments, {"attribute", "default"}, 1));
  TENON_ASSIGN_OR_RETURN(Values values, items_if_any(run, value));
  for (Value& item : values) {
    TENON_ASSIGN_OR_RETURN(item, value_at(run, item, *bound[0], bound[1]));
  }
  return run.list(std::move(values), ListKind::generator);
}

// map('filter', …) or map(attribute='name').
Result<Value> map(Interpreter& run, const Value& value, const Arguments& arguments) {
  if (arguments.positional.empty()) return map_attribute(run, value, arguments);
  TENON_ASSIGN_OR_RETURN(const std::string name, name_at(arguments, 0));
  const Filter* filter = find_filter(name);
  if (filter == nullptr) return unsupported(no_such_filter(name));
  const Arguments rest = rest_of(arguments, 1);
  TENON_ASSIGN_OR_RETURN(Values values, items_if_any(run, value));
  for (Value& item : values) {
    TENON_ASSIGN_OR_RETURN(item, filter->run(run, item, rest));
    if (run.budget().is_exceeded()) return run.budget().status();
  }
  return run.list(std::move(values), ListKind::generator);
}

}  // namespace

std::span<const Filter> selection_filters() {
  static constexpr Filter kFilters[] = {{"select", select},
                                        {"reject", reject},
                                        {"selectattr", select_by},
                                        {"rejectattr", reject_by},
                                        {"map", map}};
  return kFilters;
}

}  // namespace tenon::chat
