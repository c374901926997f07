#include "core/chat/json_values.h"

#include <limits>

#include "core/base/json_fault.h"
#include "core/base/nesting.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

constexpr size_t kDeepest = 64;

Integer whole_number(const ordered_json& json) {
  if (json.is_number_unsigned()) return static_cast<Integer>(json.get<uint64_t>());
  return static_cast<Integer>(json.get<int64_t>());
}

}  // namespace

Result<ordered_json> parse_json_text(std::string_view text) {
  if (is_nested_deeper(text, kDeepest)) {
    return invalid_argument("JSON is nested deeper than " + std::to_string(kDeepest) + " levels");
  }
  try {
    return ordered_json::parse(text.begin(), text.end());
  } catch (const std::exception& error) {
    return invalid_argument("not JSON: " + json_fault(error.what()));
  }
}

Result<Value> make_value(Budget& budget, const ordered_json& json, bool is_trusted) {
  budget.spend(1);
  if (budget.is_exceeded()) return budget.status();
  switch (json.type()) {
    case ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case ordered_json::value_t::number_integer:
    case ordered_json::value_t::number_unsigned:
      return Value(whole_number(json));
    case ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case ordered_json::value_t::string:
      return make_text(budget, json.get_ref<const std::string&>(), is_trusted);
    case ordered_json::value_t::array: {
      Values items;
      items.reserve(json.size());
      for (const ordered_json& item : json) {
        TENON_ASSIGN_OR_RETURN(Value value, make_value(budget, item, is_trusted));
        items.push_back(std::move(value));
      }
      return make_list(budget, std::move(items));
    }
    case ordered_json::value_t::object: {
      std::vector<Dict::Item> items;
      items.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        TENON_ASSIGN_OR_RETURN(Value value, make_value(budget, item, is_trusted));
        items.emplace_back(make_text(budget, key, is_trusted), std::move(value));
      }
      return make_dict(budget, std::move(items));
    }
    default:
      return Value(None());
  }
}

}  // namespace tenon::chat
