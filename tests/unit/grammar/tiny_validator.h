// Whether a JSON text satisfies a schema, by another way than the compiler's: recursion over the
// parsed text. For what tests use of JSON Schema.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace tenon::grammar {

class TinyValidator {
 public:
  using Json = nlohmann::json;
  explicit TinyValidator(const std::string& schema) : root_(Json::parse(schema)) {}

  // False also where the text is not JSON.
  bool accepts(const std::string& text) const {
    const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    return !value.is_discarded() && holds(root_, value);
  }

 private:
  bool holds(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [name, word] : schema.items()) {
      if (!keyword(schema, name, word, value)) return false;
    }
    return true;
  }

  bool keyword(const Json& schema, const std::string& name, const Json& word,
               const Json& value) const {
    if (name == "type") return is_of_types(word, value);
    if (name == "enum") return std::find(word.begin(), word.end(), value) != word.end();
    if (name == "const") return word == value;
    if (name == "$ref") {
      const std::string to = word.get<std::string>();
      return holds(to == "#" ? root_ : root_.at(Json::json_pointer(to.substr(1))), value);
    }
    if (name == "allOf" || name == "anyOf" || name == "oneOf") {
      size_t count = 0;
      for (const Json& part : word) count += holds(part, value);
      return name == "allOf" ? count == word.size() : name == "anyOf" ? count > 0 : count == 1;
    }
    if (value.is_number()) return number(name, word, value.get<double>());
    if (value.is_string()) return text(name, word, value.get<std::string>());
    if (value.is_array()) return array(schema, name, word, value);
    if (value.is_object()) return object(schema, name, word, value);
    return true;
  }

  static bool is_of_types(const Json& types, const Json& value) {
    if (types.is_array()) {
      return std::any_of(types.begin(), types.end(),
                         [&](const Json& type) { return is_of_types(type, value); });
    }
    const std::string type = types.get<std::string>();
    if (type == "integer") {
      return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    }
    return type == value.type_name();
  }

  static bool number(const std::string& name, const Json& word, double value) {
    if (name == "minimum") return value >= word.get<double>();
    if (name == "maximum") return value <= word.get<double>();
    if (name == "exclusiveMinimum") return value > word.get<double>();
    if (name == "exclusiveMaximum") return value < word.get<double>();
    if (name != "multipleOf") return true;
    const double parts = value / word.get<double>();
    return std::abs(parts - std::round(parts)) < 1e-6;
  }

  static bool text(const std::string& name, const Json& word, const std::string& value) {
    const auto characters = std::count_if(value.begin(), value.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    });
    if (name == "minLength") return characters >= word.get<int>();
    if (name == "maxLength") return characters <= word.get<int>();
    if (name != "pattern") return true;
    return std::regex_search(value, std::regex(word.get<std::string>()));
  }

  bool array(const Json& schema, const std::string& name, const Json& word,
             const Json& value) const {
    if (name == "minItems") return value.size() >= word.get<size_t>();
    if (name == "maxItems") return value.size() <= word.get<size_t>();
    const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (name == "prefixItems" && i < prefix && !holds(word[i], value[i])) return false;
      if (name == "items" && i >= prefix && !holds(word, value[i])) return false;
    }
    return true;
  }

  bool object(const Json& schema, const std::string& name, const Json& word,
              const Json& value) const {
    if (name == "minProperties") return value.size() >= word.get<size_t>();
    if (name == "maxProperties") return value.size() <= word.get<size_t>();
    if (name == "required") {
      return std::all_of(word.begin(), word.end(),
                         [&](const Json& key) { return value.contains(key.get<std::string>()); });
    }
    const Json named = schema.value("properties", Json::object());
    for (const auto& [key, member] : value.items()) {
      const bool is_named = named.contains(key);
      if (name == "properties" && is_named && !holds(word[key], member)) return false;
      if (name == "additionalProperties" && !is_named && !holds(word, member)) return false;
    }
    return true;
  }

  Json root_;
};

}  // namespace tenon::grammar
