// Methods of lists, dictionaries and loops. Those that would change what they belong to are known,
// and end the rendering: templates may not change values, in transformers either.
#include <algorithm>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {
namespace {

Result<Value> forbidden(Interpreter&, const Value& self, const Arguments&) {
  return invalid_argument("a method would change a value of type '" + std::string(type_name(self)) +
                          "', which chat templates may not – make a new one: 'a + [b]'");
}

Result<Value> copy(Interpreter&, const Value& self, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("copy", arguments, {}).take_status());
  return self;
}

Result<Value> index(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("index", arguments, {"value"}, 1));
  const Values& items = self.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (are_equal(items[i], *bound[0], &run.budget())) return Value(static_cast<Integer>(i));
  }
  return invalid_argument("a value that is looked for is not in the list");
}

Result<Value> count(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("count", arguments, {"value"}, 1));
  const Values& items = self.list()->items;
  return Value(
      static_cast<Integer>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return are_equal(item, *bound[0], &run.budget());
      })));
}

Result<Value> get(Interpreter&, const Value& self, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("get", arguments, {"key", "default"}, 1));
  const Value& key = *bound[0];
  if (!key.is_undefined() && !can_be_key(key)) return type_error("a key", key);
  if (const Value* found = self.dict()->find(key)) return *found;
  return bound[1] == nullptr ? Value(None()) : *bound[1];
}

enum class Side { keys, values, items };

template <Side kSide>
Result<Value> view(Interpreter& run, const Value& self, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("the method", arguments, {}).take_status());
  const Dict& dict = *self.dict();
  if (!run.budget().allows_values(3 * dict.items.size())) return run.budget().status();
  Values items;
  for (const auto& [key, value] : dict.items) {
    if (kSide == Side::keys) items.push_back(key);
    if (kSide == Side::values) items.push_back(value);
    if (kSide == Side::items) items.push_back(run.list({key, value}, ListKind::tuple));
  }
  return run.list(std::move(items), ListKind::view);
}

// One of the arguments, in turn.
Result<Value> cycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return invalid_argument("'cycle' needs values to choose from");
  }
  return arguments.positional[self.loop()->index % arguments.positional.size()];
}

}  // namespace

std::span<const MethodEntry> list_methods() {
  static constexpr MethodEntry kMethods[] = {
      {"index", index},       {"count", count},      {"copy", copy},      {"append", forbidden},
      {"extend", forbidden},  {"insert", forbidden}, {"pop", forbidden},  {"remove", forbidden},
      {"reverse", forbidden}, {"sort", forbidden},   {"clear", forbidden}};
  return kMethods;
}

std::span<const MethodEntry> dict_methods() {
  static constexpr MethodEntry kMethods[] = {{"get", get},
                                             {"keys", view<Side::keys>},
                                             {"values", view<Side::values>},
                                             {"items", view<Side::items>},
                                             {"copy", copy},
                                             {"update", forbidden},
                                             {"pop", forbidden},
                                             {"popitem", forbidden},
                                             {"setdefault", forbidden},
                                             {"clear", forbidden}};
  return kMethods;
}

std::span<const MethodEntry> loop_methods() {
  static constexpr MethodEntry kMethods[] = {{"cycle", cycle}};
  return kMethods;
}

}  // namespace tenon::chat
