#include "core/jinja/ordering.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/jinja/case_mapping.h"
#include "core/jinja/compare.h"

namespace tenon::chat {
namespace {

Value in_lower_case(Interpreter& run, const Value& value) {
  if (!value.is_text()) return value;
  TextBuilder out(run.budget());
  add_lower(value.text(), 0, value.text().size(), out);
  return run.text(out.take());
}

}  // namespace

Result<Value> value_at(Interpreter& run, const Value& item, const Value& attribute,
                       const Value* otherwise) {
  if (attribute.is_text()) return run.path_of(item, attribute.bytes(), otherwise);
  TENON_ASSIGN_OR_RETURN(const Value found, run.item_of(item, attribute));
  return found.is_undefined() && otherwise != nullptr ? *otherwise : found;
}

Result<Values> sort_keys(Interpreter& run, const Values& values, const Value* attribute,
                         bool keeps_case) {
  Values keys;
  for (const Value& value : values) {
    Value key = value;
    if (attribute != nullptr && !attribute->is_none()) {
      if (attribute->is_text() && attribute->bytes().find(',') != std::string_view::npos) {
        Values parts;
        for (const std::string_view path : split(attribute->bytes(), ',')) {
          TENON_ASSIGN_OR_RETURN(const Value part, run.path_of(value, path));
          parts.push_back(keeps_case ? part : in_lower_case(run, part));
        }
        keys.push_back(run.list(std::move(parts)));
        continue;
      }
      TENON_ASSIGN_OR_RETURN(key, value_at(run, value, *attribute));
    }
    keys.push_back(keeps_case ? std::move(key) : in_lower_case(run, key));
  }
  return keys;
}

Status sort_by_keys(Interpreter& run, Values& values, const Values& keys, bool backward) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Status fault;
  const auto before = [&](size_t a, size_t b) {
    if (!fault.ok() || run.budget().is_exceeded()) return false;
    Result<bool> less = backward ? is_less(keys[b], keys[a], run.budget())
                                 : is_less(keys[a], keys[b], run.budget());
    if (!less.ok()) fault = less.take_status();
    return less.ok() && *less;
  };
  // A merge sort: it ends, and stays inside of its range, whatever `before` says.
  for (size_t width = 1; width < order.size(); width *= 2) {
    std::vector<size_t> merged(order.size());
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const auto first = order.begin() + static_cast<ptrdiff_t>(begin);
      const size_t left = std::min(width, order.size() - begin);
      const size_t both = std::min(2 * width, order.size() - begin);
      std::merge(first, first + static_cast<ptrdiff_t>(left), first + static_cast<ptrdiff_t>(left),
                 first + static_cast<ptrdiff_t>(both),
                 merged.begin() + static_cast<ptrdiff_t>(begin), before);
    }
    order = std::move(merged);
  }
  TENON_RETURN_IF_ERROR(std::move(fault));
  Values sorted;
  for (const size_t i : order) sorted.push_back(std::move(values[i]));
  values = std::move(sorted);
  return Status();
}

}  // namespace tenon::chat
