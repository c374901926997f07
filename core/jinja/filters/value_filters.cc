// Filters that take values out of others, sort them into groups, or read them.
#include <algorithm>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/json_values.h"
#include "core/jinja/ordering.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {
namespace {

// Of dictionaries only what all have, never an item.
Result<Value> attribute(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("attr", arguments, {"name"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText* name, text_argument("attr", bound[0]));
  if (name == nullptr) return invalid_argument("'attr' needs the name of an attribute");
  if (value.dict() != nullptr && find_method(value, name->bytes()) == nullptr) {
    return make_undefined("a dictionary has no attribute " + in_quotes(name->bytes(), 80));
  }
  return run.attribute_of(value, name->bytes());
}

// As llama.cpp has it. What is no text was read already: arguments of calls are.
Result<Value> from_json(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("from_json", arguments, {}).take_status());
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_text()) return value;
  const Result<nlohmann::ordered_json> json = parse_template_json(value.bytes());
  if (!json.ok()) return with_context("'from_json'", json.status());
  return make_value(run.budget(), *json);
}

// Which one is chosen differs from call to call, and is the same in every rendering.
Result<Value> random(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("random", arguments, {}).take_status());
  const List* list = value.list();
  if (list != nullptr && list->kind == ListKind::generator) return type_error("measured", value);
  TENON_ASSIGN_OR_RETURN(const Values items, run.items_of(value));
  if (items.empty()) return make_undefined("an empty sequence has no random item");
  return items[run.next_random() % items.size()];
}

// Into so many lists of about the same length; the shorter ones may be filled up.
Result<Value> slice(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("slice", arguments, {"slices", "fill_with"}, 1));
  TENON_ASSIGN_OR_RETURN(const Integer wanted, whole_argument("slice", bound[0], 1));
  if (wanted < 1 || wanted > 1'000'000) {
    return invalid_argument("'slice' needs a number from 1 to 1000000");
  }
  TENON_ASSIGN_OR_RETURN(const Values values, run.items_of(value));
  const auto count = static_cast<size_t>(wanted);
  if (!run.budget().allows_values(count)) return run.budget().status();
  const size_t each = values.size() / count, longer = values.size() % count;
  Values slices;
  size_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    Values part(values.begin() + static_cast<ptrdiff_t>(begin),
                values.begin() + static_cast<ptrdiff_t>(end));
    const bool is_filled = bound[1] != nullptr && !bound[1]->is_none() && i >= longer;
    if (is_filled) part.push_back(*bound[1]);
    slices.push_back(run.list(std::move(part)));
    begin = end;
  }
  return run.list(std::move(slices), ListKind::generator);
}

Value group_of(Interpreter& run, Value key, Values members) {
  auto group = std::make_shared<List>(
      ListKind::tuple, Values{std::move(key), run.list(std::move(members))}, &run.budget());
  group->is_group = true;
  return group;
}

// Sorted by the key, as (key, items); without regard to case the key is that of the first item.
Result<Value> group_by(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
  TENON_ASSIGN_OR_RETURN(const bool keeps_case, flag_argument(bound[2], false));
  const Value* otherwise = bound[1] != nullptr && bound[1]->is_none() ? nullptr : bound[1];
  TENON_ASSIGN_OR_RETURN(Values values, run.items_of(value));
  Values pairs, own_keys;
  for (const Value& item : values) {
    TENON_ASSIGN_OR_RETURN(Value key, value_at(run, item, *bound[0], otherwise));
    own_keys.push_back(key);
    pairs.push_back(run.list({std::move(key), item}, ListKind::tuple));
  }
  TENON_ASSIGN_OR_RETURN(Values keys, sort_keys(run, own_keys, nullptr, keeps_case));
  Values sorted_keys = keys;
  TENON_RETURN_IF_ERROR(sort_by_keys(run, pairs, keys, false));
  TENON_RETURN_IF_ERROR(sort_by_keys(run, sorted_keys, keys, false));
  Values groups;
  for (size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
    Values members;
    for (; end < pairs.size() && are_equal(sorted_keys[begin], sorted_keys[end], &run.budget());
         ++end) {
      members.push_back(pairs[end].list()->items[1]);
    }
    if (run.budget().is_exceeded()) return run.budget().status();
    groups.push_back(group_of(run, pairs[begin].list()->items[0], std::move(members)));
  }
  return run.list(std::move(groups));
}

}  // namespace

std::span<const Filter> value_filters() {
  static constexpr Filter kFilters[] = {{"attr", attribute},
                                        {"from_json", from_json},
                                        {"random", random},
                                        {"slice", slice},
                                        {"groupby", group_by}};
  return kFilters;
}

}  // namespace tenon::chat
