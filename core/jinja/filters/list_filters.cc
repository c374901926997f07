// Filters that take a sequence apart or put it together.
#include <algorithm>

#include "core/base/quote.h"
#include "core/jinja/case_mapping.h"
#include "core/jinja/compare.h"
#include "core/jinja/ordering.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/operators.h"
#include "core/jinja/text_functions.h"
#include "core/unicode/utf8.h"

namespace tenon::chat {
namespace {

Result<Value> default_value(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("default", arguments, {"default_value", "boolean"}));
  TENON_ASSIGN_OR_RETURN(const bool by_truth, flag_argument(bound[1], false));
  if (!value.is_undefined() && (!by_truth || is_true(value))) return value;
  return bound[0] == nullptr ? run.text(std::string_view()) : *bound[0];
}

Result<Value> length(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("length", arguments, {}).take_status());
  if (value.is_undefined()) return Value(Integer{0});
  if (value.is_text()) {
    run.budget().spend(value.bytes().size() / 64);
    return Value(static_cast<Integer>(count_characters(value.bytes())));
  }
  if (value.dict() != nullptr) return Value(static_cast<Integer>(value.dict()->items.size()));
  const List* list = value.list();
  if (list == nullptr || list->kind == ListKind::generator) return type_error("measured", value);
  return Value(static_cast<Integer>(list->items.size()));
}

Result<Value> as_list(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_RETURN_IF_ERROR(bind("list", arguments, {}).take_status());
  TENON_ASSIGN_OR_RETURN(Values items, run.items_of(value));
  return run.list(std::move(items));
}

Result<Value> join(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("join", arguments, {"d", "attribute"}));
  MarkedText separator;
  if (bound[0] != nullptr) {
    TENON_ASSIGN_OR_RETURN(separator, to_text(*bound[0], run.budget()));
  }
  TENON_ASSIGN_OR_RETURN(const Values items, run.items_of(value));
  TextBuilder out(run.budget());
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(separator);
    Value item = items[i];
    if (bound[1] != nullptr) {
      TENON_ASSIGN_OR_RETURN(item, value_at(run, item, *bound[1]));
    }
    TENON_RETURN_IF_ERROR(add_text(item, out));
  }
  return run.text(out.take());
}

Result<Value> first(Interpreter& run, const Value& value, const Arguments&) {
  if (List* list = value.list(); list != nullptr && list->kind == ListKind::generator) {
    if (list->used == list->items.size()) return make_undefined("there is no first item");
    return list->items[list->used++];
  }
  TENON_ASSIGN_OR_RETURN(const Values items, run.items_of(value));
  return items.empty() ? make_undefined("there is no first item") : items.front();
}

Result<Value> last(Interpreter& run, const Value& value, const Arguments&) {
  const List* list = value.list();
  if (list != nullptr && list->kind == ListKind::generator) return type_error("reversed", value);
  TENON_ASSIGN_OR_RETURN(const Values items, run.items_of(value));
  return items.empty() ? make_undefined("there is no last item") : items.back();
}

Result<Value> reverse(Interpreter& run, const Value& value, const Arguments&) {
  TENON_ASSIGN_OR_RETURN(Values items, run.items_of(value));
  std::reverse(items.begin(), items.end());
  if (!value.is_text()) return run.list(std::move(items), ListKind::generator);
  TextBuilder out(run.budget());
  for (const Value& item : items) out.add(item.text());
  return run.text(out.take());
}

Result<Value> items(Interpreter& run, const Value& value, const Arguments&) {
  Values pairs;
  if (value.is_undefined()) return run.list(std::move(pairs), ListKind::generator);
  if (value.dict() == nullptr) return type_error("taken apart into items", value);
  if (!run.budget().allows_values(3 * value.dict()->items.size())) return run.budget().status();
  for (const auto& [key, item] : value.dict()->items) {
    pairs.push_back(run.list({key, item}, ListKind::tuple));
  }
  return run.list(std::move(pairs), ListKind::generator);
}

Result<Value> sort(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}));
  TENON_ASSIGN_OR_RETURN(const bool backward, flag_argument(bound[0], false));
  TENON_ASSIGN_OR_RETURN(const bool keeps_case, flag_argument(bound[1], false));
  TENON_ASSIGN_OR_RETURN(Values values, run.items_of(value));
  TENON_ASSIGN_OR_RETURN(Values keys, sort_keys(run, values, bound[2], keeps_case));
  TENON_RETURN_IF_ERROR(sort_by_keys(run, values, keys, backward));
  return run.list(std::move(values));
}

Result<Value> sort_dict(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}));
  TENON_ASSIGN_OR_RETURN(const bool keeps_case, flag_argument(bound[0], false));
  TENON_ASSIGN_OR_RETURN(const MarkedText* by, text_argument("dictsort", bound[1]));
  TENON_ASSIGN_OR_RETURN(const bool backward, flag_argument(bound[2], false));
  if (value.dict() == nullptr) return type_error("sorted as a dictionary", value);
  const bool by_value = by != nullptr && by->bytes() == "value";
  if (by != nullptr && !by_value && by->bytes() != "key") {
    return invalid_argument("'dictsort' sorts by 'key' or by 'value', not by " +
                            in_quotes(by->bytes()));
  }
  Values pairs;
  Values keys;
  for (const auto& [key, item] : value.dict()->items) {
    pairs.push_back(run.list({key, item}, ListKind::tuple));
    keys.push_back(by_value ? item : key);
  }
  TENON_ASSIGN_OR_RETURN(keys, sort_keys(run, keys, nullptr, keeps_case));
  TENON_RETURN_IF_ERROR(sort_by_keys(run, pairs, keys, backward));
  return run.list(std::move(pairs));
}

Result<Value> extreme(Interpreter& run, const Value& value, const Arguments& arguments,
                      std::string_view name, bool largest) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind(name, arguments, {"case_sensitive", "attribute"}));
  TENON_ASSIGN_OR_RETURN(const bool keeps_case, flag_argument(bound[0], false));
  TENON_ASSIGN_OR_RETURN(const Values values, run.items_of(value));
  if (values.empty()) return make_undefined("an empty sequence has no " + std::string(name));
  TENON_ASSIGN_OR_RETURN(const Values keys, sort_keys(run, values, bound[1], keeps_case));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    const Value& small = largest ? keys[best] : keys[i];
    const Value& large = largest ? keys[i] : keys[best];
    TENON_ASSIGN_OR_RETURN(const bool is_better, is_less(small, large, run.budget()));
    if (is_better) best = i;
  }
  return values[best];
}
Result<Value> smallest(Interpreter& run, const Value& value, const Arguments& arguments) {
  return extreme(run, value, arguments, "min", false);
}
Result<Value> largest(Interpreter& run, const Value& value, const Arguments& arguments) {
  return extreme(run, value, arguments, "max", true);
}

Result<Value> sum(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("sum", arguments, {"attribute", "start"}));
  TENON_ASSIGN_OR_RETURN(const Values values, run.items_of(value));
  Value total = bound[1] == nullptr ? Value(Integer{0}) : *bound[1];
  for (const Value& item : values) {
    Value term = item;
    if (bound[0] != nullptr && !bound[0]->is_none()) {
      TENON_ASSIGN_OR_RETURN(term, value_at(run, item, *bound[0]));
    }
    TENON_ASSIGN_OR_RETURN(total, apply_operator(Operator::add, total, term, run.budget()));
  }
  return total;
}

Result<Value> unique(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("unique", arguments, {"case_sensitive", "attribute"}));
  TENON_ASSIGN_OR_RETURN(const bool keeps_case, flag_argument(bound[0], false));
  TENON_ASSIGN_OR_RETURN(const Values values, run.items_of(value));
  TENON_ASSIGN_OR_RETURN(const Values keys, sort_keys(run, values, bound[1], keeps_case));
  Values kept;
  Values seen;
  for (size_t i = 0; i < values.size() && !run.budget().is_exceeded(); ++i) {
    const bool is_new = std::none_of(seen.begin(), seen.end(), [&](const Value& other) {
      return are_equal(other, keys[i], &run.budget());
    });
    if (!is_new) continue;
    seen.push_back(keys[i]);
    kept.push_back(values[i]);
  }
  return run.list(std::move(kept), ListKind::generator);
}

// Rows of `linecount` items; the last one may be filled up.
Result<Value> batch(Interpreter& run, const Value& value, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound,
                         bind("batch", arguments, {"linecount", "fill_with"}, 1));
  TENON_ASSIGN_OR_RETURN(const Integer count, whole_argument("batch", bound[0], 1));
  if (count < 1 || count > 1'000'000) {
    return invalid_argument("'batch' needs a number from 1 to 1000000");
  }
  TENON_ASSIGN_OR_RETURN(const Values values, run.items_of(value));
  const auto size = static_cast<size_t>(count);
  Values rows;
  for (size_t at = 0; at < values.size(); at += size) {
    const size_t end = std::min(at + size, values.size());
    Values row(values.begin() + static_cast<ptrdiff_t>(at),
               values.begin() + static_cast<ptrdiff_t>(end));
    if (bound[1] != nullptr && !bound[1]->is_none() && run.budget().allows_values(size)) {
      row.resize(size, *bound[1]);
    }
    rows.push_back(run.list(std::move(row)));
  }
  return run.list(std::move(rows), ListKind::generator);
}

}  // namespace

std::span<const Filter> list_filters() {
  static constexpr Filter kFilters[] = {
      {"default", default_value}, {"d", default_value}, {"length", length},
      {"count", length},          {"list", as_list},    {"join", join},
      {"first", first},           {"last", last},       {"reverse", reverse},
      {"items", items},           {"sort", sort},       {"dictsort", sort_dict},
      {"min", smallest},          {"max", largest},     {"sum", sum},
      {"unique", unique},         {"batch", batch}};
  return kFilters;
}

}  // namespace tenon::chat
