#include "core/jinja/json_values.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json/json_builder.h"
#include "core/jinja/read_number.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

constexpr JsonLimits kLimits = {.levels = 64, .once = false};

// JSON knows no binary values, so that these stand for nothing else.
class KeepsIntegers final : public JsonBuilder<ordered_json> {
 public:
  using JsonBuilder::JsonBuilder;
  bool number_float(double value, const std::string& written) override {
    if (written.find_first_of(".eE") != std::string::npos) {
      return JsonBuilder::number_float(value, written);
    }
    auto number = read_whole(written, 10);
    if (!number.ok()) number_fault_ = number.take_status();
    ordered_json::binary_t digits(std::vector<uint8_t>(written.begin(), written.end()));
    return binary(digits);
  }
  Status take_number_fault() { return std::move(number_fault_); }

 private:
  Status number_fault_;
};

Result<Value> long_number(const ordered_json::binary_t& digits) {
  const std::string written(digits.begin(), digits.end());
  TENON_ASSIGN_OR_RETURN(const std::optional<Integer> number, read_whole(written, 10));
  return number ? Value(*number) : Value(None());
}

Integer whole_number(const ordered_json& json) {
  if (json.is_number_unsigned()) return static_cast<Integer>(json.get<uint64_t>());
  return static_cast<Integer>(json.get<int64_t>());
}

}  // namespace

Result<ordered_json> parse_json_text(std::string_view text) {
  ordered_json value;
  const JsonFault fault = build_json(text, kLimits, value);
  if (fault.kind == JsonFault::Kind::levels) {
    return invalid_argument("JSON is nested deeper than " + std::to_string(kLimits.levels) +
                            " levels");
  }
  if (fault.kind != JsonFault::Kind::none) return invalid_argument("not JSON: " + fault.text);
  return value;
}

Result<ordered_json> parse_template_json(std::string_view text) {
  // Which also says what is wrong.
  TENON_ASSIGN_OR_RETURN(ordered_json plain, parse_json_text(text));
  constexpr size_t kDigitsOf64Bits = 19;
  size_t digits = 0, most = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    most = std::max(most, digits);
  }
  if (most < kDigitsOf64Bits) return plain;
  ordered_json json;
  KeepsIntegers reader(kLimits, json);
  ordered_json::sax_parse(text.begin(), text.end(), &reader);
  TENON_RETURN_IF_ERROR(reader.take_number_fault());
  return json;
}

const ordered_json* json_member(const ordered_json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(key));
  return found == object.end() ? nullptr : &*found;
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
    case ordered_json::value_t::binary:
      return long_number(json.get_binary());
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
