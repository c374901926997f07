#include "core/model/config/json_fields.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/json/json_builder.h"
#include "core/base/quote.h"
#include "core/files/git_lfs.h"

namespace tenon {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxFaults = 8;

// Walks the text once, building nothing but the keys of the objects it stands in.
class StructureCheck final : public nlohmann::json_sax<json> {
 public:
  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    return refuse("the key " + in_quotes(key) + " stands twice in one object");
  }
  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    // 4xx are numbers that do not fit; all others are broken syntax.
    const bool overflow = error.id >= 400 && error.id < 500;
    return refuse(std::string(overflow ? "a number too large" : "a syntax error") + " at byte " +
                  std::to_string(position));
  }

 private:
  bool open() {
    keys_.emplace_back();
    return keys_.size() <= kMaxDepth ||
           refuse("nesting is deeper than " + std::to_string(kMaxDepth));
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  bool refuse(std::string text) {
    fault_ = std::move(text);
    return false;
  }
  std::vector<std::set<std::string>> keys_;
  std::string fault_;
};

}  // namespace

Result<json> parse_json_object(std::string_view text) try {
  TENON_RETURN_IF_ERROR(check_no_git_lfs_pointer(text));
  StructureCheck check;
  if (!json::sax_parse(text, &check)) {
    return invalid_argument("not valid JSON: " + check.fault());
  }
  json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    return invalid_argument("found " + describe(parsed) + "; expected a JSON object");
  }
  return parsed;
} catch (const std::exception& error) {
  return failed("cannot parse JSON: " + json_fault(error.what()));
}

nlohmann::ordered_json in_order(std::string_view text) {
  nlohmann::ordered_json object;
  build_json(text, {}, object);
  return object;
}

bool is_spelled_infinity(const json& value) {
  return value.is_object() && value.size() == 1 && value.contains("__float__") &&
         value["__float__"] == "Infinity";
}

std::string with_spelled_infinity(std::string text) {
  constexpr std::string_view kBare = "Infinity", kSpelled = R"({"__float__": "Infinity"})";
  bool inside = false;  // a string
  for (size_t at = 0; at < text.size(); ++at) {
    if (inside && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      inside = !inside;
    } else if (!inside && text.compare(at, kBare.size(), kBare) == 0) {
      text.replace(at, kBare.size(), kSpelled);
      at += kSpelled.size() - 1;
    }
  }
  return text;
}

std::string describe(const json& value) {
  if (is_spelled_infinity(value)) return "Infinity";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "…";
  return text;
}

void Faults::invalid(std::string text) {
  any_invalid_ = true;
  add(std::move(text));
}

void Faults::unsupported(std::string text) {
  add(std::move(text));
}

void Faults::add(std::string text) {
  if (std::ranges::find(texts_, text) != texts_.end()) return;
  ++count_;
  if (texts_.size() < kMaxFaults) texts_.push_back(std::move(text));
}

Status Faults::status(std::string_view where) const {
  if (!any()) return {};
  std::string message(where);
  message += texts_.size() == 1 ? ": " : ":";
  for (const std::string& text : texts_) {
    if (texts_.size() > 1) message += "\n  ";
    message += text;
  }
  if (count_ > texts_.size()) {
    message += "\n  and " + std::to_string(count_ - texts_.size()) + " more";
  }
  return any_invalid_ ? invalid_argument(message) : tenon::unsupported(message);
}

const json* JsonFields::find(const char* key) const {
  if (asked_ != nullptr) asked_->insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonFields::is_null(const char* key) const {
  if (asked_ != nullptr) asked_->insert(key);
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

uint32_t JsonFields::count(const char* key, uint32_t fallback, uint32_t min, uint32_t max) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  // Negative integers are not "unsigned" to the parser. Python computes lengths as floats.
  if (value->is_number_unsigned() || value->is_number_float()) {
    const auto read = value->get<double>();
    if (read >= min && read <= max && std::floor(read) == read) return static_cast<uint32_t>(read);
  }
  mismatch(key, *value, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return fallback;
}

double JsonFields::number(const char* key, double fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
  mismatch(key, *value, "a number");
  return fallback;
}

bool JsonFields::flag(const char* key, bool fallback) const {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  mismatch(key, *value, "true or false");
  return fallback;
}

bool JsonFields::truth(const char* key, bool fallback) const {
  return !is_null(key) && flag(key, fallback);
}

std::string JsonFields::text(const char* key, std::string_view fallback) const {
  const json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  mismatch(key, *value, "a text");
  return std::string(fallback);
}

std::optional<JsonFields> JsonFields::object(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object() && !is_spelled_infinity(*value)) {
    return JsonFields(*value, faults_, prefix_ + key + ".");
  }
  mismatch(key, *value, "an object");
  return std::nullopt;
}

std::vector<bool> JsonFields::flags(const char* key, size_t count) const {
  const json* value = find(key);
  if (value == nullptr) return {};
  const auto is_flag = [](const json& item) {
    return item.is_boolean() || (item.is_number_unsigned() && item.get<uint64_t>() <= 1);
  };
  if (!value->is_array() || value->size() != count || !std::ranges::all_of(*value, is_flag)) {
    mismatch(key, *value, "a list of " + std::to_string(count) + " times 0 or 1");
    return {};
  }
  std::vector<bool> flags;
  for (const json& item : *value) {
    flags.push_back(item.is_boolean() ? item.get<bool>() : item.get<uint64_t>() == 1);
  }
  return flags;
}

std::vector<int32_t> JsonFields::token_ids(const char* key, std::vector<int32_t> fallback,
                                           uint32_t vocabulary) const {
  if (is_null(key)) return {};
  const json* value = find(key);
  if (value == nullptr) return fallback;
  std::vector<int32_t> ids;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary) {
      mismatch(key, id, "token ids from 0 to " + std::to_string(vocabulary - 1));
      return {};
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

void JsonFields::mismatch(const char* key, const json& value, std::string_view expected) const {
  faults_.invalid(name(key) + " is " + describe(value) + "; expected " + std::string(expected));
}

}  // namespace tenon
