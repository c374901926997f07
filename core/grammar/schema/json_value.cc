#include "core/grammar/schema/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "core/base/json/json_fault.h"
#include "core/base/quote.h"
#include "core/grammar/schema/decimal.h"

namespace tenon::grammar {
namespace {

constexpr size_t kDeepest = 64;

constexpr size_t kFewMembers = 16;  // which are compared in turn

// So that each member of a schema with many definitions is found without a look at all others.
void index_members(JsonValue& object) {
  if (object.members.size() <= kFewMembers) return;
  object.by_name.resize(object.members.size());
  std::iota(object.by_name.begin(), object.by_name.end(), 0u);
  std::ranges::sort(object.by_name, {},
                    [&](uint32_t at) -> const std::string& { return object.members[at].name; });
}

// Takes what the parser finds, and stops it where it finds what is not wanted.
class Collector final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Collector(JsonValue& root) : root_(root) {}

  bool null() override { return place() != nullptr; }
  bool boolean(bool flag) override { return scalar(JsonValue::Kind::boolean, "", flag); }
  bool number_integer(number_integer_t value) override {
    return scalar(JsonValue::Kind::number, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return scalar(JsonValue::Kind::number, std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& written) override {
    return scalar(JsonValue::Kind::number, written);
  }
  bool string(string_t& value) override {
    return scalar(JsonValue::Kind::string, std::move(value));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(JsonValue::Kind::object); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(JsonValue::Kind::array); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      fault_ = "the key " + in_quotes(name) + " is there twice – leave one out";
      return false;
    }
    open_.back()->members.push_back({std::move(name), JsonValue()});
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    fault_ = "not JSON: " + json_fault(error.what());
    return false;
  }

  const std::string& fault() const { return fault_; }

 private:
  JsonValue* place() {
    if (open_.empty()) return &root_;
    JsonValue& parent = *open_.back();
    if (parent.is_object()) return &parent.members.back().value;
    return &parent.items.emplace_back();
  }
  bool scalar(JsonValue::Kind kind, std::string text, bool flag = false) {
    JsonValue& value = *place();
    value.kind = kind;
    value.text = std::move(text);
    value.flag = flag;
    return true;
  }
  bool open(JsonValue::Kind kind) {
    if (open_.size() >= kDeepest) {
      fault_ = "JSON is nested deeper than " + std::to_string(kDeepest) + " levels";
      return false;
    }
    JsonValue* value = place();
    value->kind = kind;
    open_.push_back(value);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    index_members(*open_.back());
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonValue& root_;
  std::vector<JsonValue*> open_;  // a parent grows only where its last child is complete
  std::vector<std::unordered_set<std::string>> keys_;
  std::string fault_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  if (!by_name.empty()) {
    const auto at = std::ranges::lower_bound(
        by_name, name, {}, [&](uint32_t place) { return std::string_view(members[place].name); });
    const bool is_there = at != by_name.end() && members[*at].name == name;
    return is_there ? &members[*at].value : nullptr;
  }
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.name == name; });
  return found == members.end() ? nullptr : &found->value;
}

bool equal(const JsonValue& a, const JsonValue& b) {
  if (a.kind != b.kind || a.flag != b.flag) return false;
  if (a.kind == JsonValue::Kind::number) {
    const auto x = Decimal::parse(a.text), y = Decimal::parse(b.text);
    return x && y ? *x == *y : a.text == b.text;
  }
  if (a.text != b.text || a.members.size() != b.members.size()) return false;
  const bool same_items = std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                                     [](auto& x, auto& y) { return equal(x, y); });
  return same_items && std::all_of(a.members.begin(), a.members.end(), [&](const auto& member) {
           const JsonValue* other = b.find(member.name);
           return other != nullptr && equal(member.value, *other);
         });
}

std::string_view kind_name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::null:
      return "null";
    case JsonValue::Kind::boolean:
      return "a boolean";
    case JsonValue::Kind::number:
      return "a number";
    case JsonValue::Kind::string:
      return "a string";
    case JsonValue::Kind::array:
      return "an array";
    case JsonValue::Kind::object:
      return "an object";
  }
  return "?";
}

Result<JsonValue> parse_json_value(std::string_view text) {
  JsonValue root;
  Collector collector(root);
  bool sound = false;
  try {
    sound = nlohmann::json::sax_parse(text.begin(), text.end(), &collector);
  } catch (const std::exception& error) {
    return invalid_argument("not JSON: " + json_fault(error.what()));
  }
  if (sound) return root;
  return invalid_argument(collector.fault().empty() ? "not JSON" : collector.fault());
}

}  // namespace tenon::grammar
