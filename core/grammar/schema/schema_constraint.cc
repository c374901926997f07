#include "core/grammar/schema/schema_constraint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/quote.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostFolded = 1000;
constexpr size_t kLongestChain = 100;

std::optional<uint32_t> count_of(const JsonValue& value) {
  if (value.kind != JsonValue::Kind::number) return std::nullopt;
  const auto number = Decimal::parse(value.text);
  if (!number || number->negative || !number->is_whole() || number->whole.size() > 9) {
    return std::nullopt;
  }
  return number->whole.empty() ? 0 : static_cast<uint32_t>(std::stoul(number->whole));
}

// The tighter of two bounds: `wanted` is 1 for lower bounds, -1 for upper ones.
void tighten(std::optional<Bound>& bound, const Bound& other, int wanted) {
  const int order = bound ? compare(other.value, bound->value) : wanted;
  if (order == wanted || (order == 0 && other.exclusive)) bound = other;
}

Status wrong_value(const std::string& path, std::string_view name, const JsonValue& value,
                   std::string_view expected) {
  return invalid_argument(at_schema(path, in_quotes(name) + " is " +
                                              std::string(kind_name(value.kind)) + " – expected " +
                                              std::string(expected)));
}

}  // namespace

std::string at_schema(const std::string& path, std::string_view what) {
  return "schema, at " + one_line(path) + ": " + std::string(what);
}

std::string below(const std::string& path, std::string_view step) {
  std::string text = path + "/";
  for (const char c : step) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text.push_back(c);
    }
  }
  return text;
}

const Constraint::Property* Constraint::property(std::string_view name) const {
  const auto found = std::find_if(properties.begin(), properties.end(),
                                  [&](const Property& property) { return property.name == name; });
  return found == properties.end() ? nullptr : &*found;
}

bool Constraint::requires_property(std::string_view name) const {
  return std::find(required.begin(), required.end(), name) != required.end();
}

Result<Constraint> SchemaReader::read(const Schemas& schemas) {
  Constraint constraint;
  if (!schemas.empty()) constraint.path = schemas.front().path;
  for (const SchemaRef& schema : schemas) TENON_RETURN_IF_ERROR(fold(constraint, schema));
  return constraint;
}

Status SchemaReader::fold(Constraint& constraint, const SchemaRef& ref,
                          std::vector<const JsonValue*> chain) {
  const JsonValue& schema = *ref.schema;
  if (schema.kind == JsonValue::Kind::boolean) {
    if (!schema.flag) constraint.never = true;
    return {};
  }
  if (!schema.is_object()) {
    return invalid_argument(at_schema(ref.path, "a schema is " +
                                                    std::string(kind_name(schema.kind)) +
                                                    " – expected an object or a boolean"));
  }
  if (std::find(chain.begin(), chain.end(), &schema) != chain.end()) {
    return unsupported(at_schema(ref.path,
                                 "the schema refers to itself and there is no value in between – "
                                 "that says nothing – leave the reference out"));
  }
  const auto& folded = constraint.folded;
  if (std::find(folded.begin(), folded.end(), &schema) != folded.end()) return {};
  if (folded.size() >= kMostFolded || chain.size() >= kLongestChain) {
    return unsupported(at_schema(ref.path, "too many schemas apply to one value – " +
                                               std::to_string(kMostFolded) + ", and references " +
                                               std::to_string(kLongestChain) +
                                               " deep, are the limit"));
  }
  constraint.folded.push_back(&schema);
  chain.push_back(&schema);
  for (const auto& [name, value] : schema.members) {
    TENON_RETURN_IF_ERROR(keyword({constraint, schema, ref.path, name, value, chain}));
  }
  TENON_RETURN_IF_ERROR(merge_properties(constraint, schema, ref.path));
  return merge_items(constraint, schema, ref.path);
}

Status SchemaReader::keyword(const Keyword& keyword) {
  if (says_nothing(keyword.name)) return {};
  for (const auto read :
       {&SchemaReader::general_keyword, &SchemaReader::limit_keyword, &SchemaReader::text_keyword,
        &SchemaReader::object_keyword, &SchemaReader::array_keyword}) {
    TENON_ASSIGN_OR_RETURN(const bool known, (this->*read)(keyword));
    if (known) return {};
  }
  return unknown(keyword);
}

// A word that may limit values must not be passed over; one that nobody knows is an annotation.
Status SchemaReader::unknown(const Keyword& keyword) {
  const std::string& name = keyword.name;
  if (is_refused(name)) {
    return unsupported(at_schema(
        keyword.path, "the keyword " + in_quotes(name) +
                          " is not supported – docs/structured-output.md lists what is – leave it "
                          "out, and check the answer yourself"));
  }
  if (const std::optional<std::string> meant = meant_word(name)) {
    return invalid_argument(at_schema(
        keyword.path, "the keyword " + in_quotes(name) +
                          " is not known – keywords are spelled as the standard has them – if " +
                          in_quotes(*meant) + " is meant, write that"));
  }
  notes_.add(name, at_schema(keyword.path, "the keyword " + in_quotes(name) +
                                               " is none of JSON Schema – it is ignored, and "
                                               "nothing is checked of it"));
  return {};
}

Result<bool> SchemaReader::general_keyword(const Keyword& keyword) {
  const std::string& name = keyword.name;
  Status status;
  if (name == "type") {
    status = types(keyword);
  } else if (name == "enum" || name == "const") {
    status = values(keyword);
  } else if (name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef") {
    status = refer(keyword);
  } else if (name == "nullable") {
    status = nullable(keyword);
  } else if (name == "anyOf" || name == "oneOf" || name == "allOf") {
    status = choice(keyword);
  } else {
    return false;
  }
  if (!status.ok()) return status;
  return true;
}

Status SchemaReader::types(const Keyword& keyword) {
  constexpr std::array<std::pair<std::string_view, uint8_t>, 7> kTypes = {{{"null", kNull},
                                                                           {"boolean", kBoolean},
                                                                           {"object", kObject},
                                                                           {"array", kArray},
                                                                           {"string", kString},
                                                                           {"integer", kInteger},
                                                                           {"number", kNumber}}};
  uint8_t types = 0;
  const std::span<const JsonValue> names =
      keyword.value.is_string() ? std::span(&keyword.value, 1) : std::span(keyword.value.items);
  for (const JsonValue& name : names) {
    const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) {
      return name.is_string() && type.first == name.text;
    });
    if (found == kTypes.end()) {
      return invalid_argument(
          at_schema(keyword.path, "the type " + shown_text(name.text) +
                                      " is not known – there are null, boolean, object, array, "
                                      "string, integer and number"));
    }
    types = static_cast<uint8_t>(types | found->second);
  }
  if (names.empty()) return wrong_value(keyword.path, "type", keyword.value, "a name, or names");
  const JsonValue* nullable = keyword.schema.find("nullable");
  if (nullable != nullptr && nullable->flag) types = static_cast<uint8_t>(types | kNull);
  keyword.into.types = static_cast<uint8_t>(keyword.into.types & types);
  return {};
}

// As OpenAPI 3.0 has it: null is a value too, of what the same schema gives a type; types() reads
// it there.
Status SchemaReader::nullable(const Keyword& keyword) {
  if (keyword.value.kind != JsonValue::Kind::boolean) {
    return wrong_value(keyword.path, keyword.name, keyword.value, "true or false");
  }
  if (!keyword.value.flag || keyword.schema.find("type") != nullptr) return {};
  notes_.add("nullable without type",
             at_schema(keyword.path,
                       "'nullable' stands without 'type', where OpenAPI 3.0 says that it changes "
                       "nothing – it is ignored – use anyOf with {\"type\": \"null\"}"));
  return {};
}

Status SchemaReader::values(const Keyword& keyword) {
  std::vector<const JsonValue*> values;
  if (keyword.name == "const") {
    values.push_back(&keyword.value);
  } else if (keyword.value.kind != JsonValue::Kind::array) {
    return wrong_value(keyword.path, "enum", keyword.value, "an array");
  } else {
    for (const JsonValue& value : keyword.value.items) values.push_back(&value);
  }
  if (values.size() > kMostValues) {
    return unsupported(at_schema(keyword.path, "the enum has " + std::to_string(values.size()) +
                                                   " values – " + std::to_string(kMostValues) +
                                                   " are possible"));
  }
  auto& before = keyword.into.values;
  if (before) {
    std::erase_if(values, [&](const JsonValue* value) {
      return std::none_of(before->begin(), before->end(),
                          [&](const JsonValue* other) { return equal(*value, *other); });
    });
  }
  before = std::move(values);
  return {};
}

Status SchemaReader::refer(const Keyword& keyword) {
  if (!keyword.value.is_string()) {
    return wrong_value(keyword.path, keyword.name, keyword.value, "a string");
  }
  const std::string& reference = keyword.value.text;
  const Result<const JsonValue*> target =
      references_.resolve(keyword.schema, keyword.name, reference);
  if (!target.ok()) {
    const std::string fault = at_schema(
        keyword.path, "the reference " + in_quotes(reference) + " " + message_of(target.status()));
    const bool is_wrong = target.status().code() == StatusCode::invalid_argument;
    return is_wrong ? invalid_argument(fault) : unsupported(fault);
  }
  return fold(keyword.into, {*target, reference}, keyword.chain);
}

Status SchemaReader::choice(const Keyword& keyword) {
  const std::vector<JsonValue>& items = keyword.value.items;
  if (keyword.value.kind != JsonValue::Kind::array || items.empty()) {
    return wrong_value(keyword.path, keyword.name, keyword.value, "an array of schemas");
  }
  Constraint::Choice choice;
  choice.path = below(keyword.path, keyword.name);
  for (size_t i = 0; i < items.size(); ++i) {
    choice.alternatives.push_back({&items[i], below(choice.path, std::to_string(i))});
  }
  if (keyword.name == "allOf") {
    for (const SchemaRef& schema : choice.alternatives) {
      TENON_RETURN_IF_ERROR(fold(keyword.into, schema, keyword.chain));
    }
    return {};
  }
  choice.exactly_one = keyword.name == "oneOf" && items.size() > 1;
  choice.chain = keyword.chain;
  keyword.into.choices.push_back(std::move(choice));
  return {};
}

Result<bool> SchemaReader::limit_keyword(const Keyword& keyword) {
  Constraint& into = keyword.into;
  const std::string& name = keyword.name;
  struct Count {
    std::string_view name;
    uint32_t& value;
    bool is_least;
  };
  const Count counts[] = {{"minLength", into.least_length, true},
                          {"maxLength", into.most_length, false},
                          {"minItems", into.least_items, true},
                          {"maxItems", into.most_items, false},
                          {"minProperties", into.least_properties, true},
                          {"maxProperties", into.most_properties, false}};
  for (const Count& count : counts) {
    if (count.name != name) continue;
    const std::optional<uint32_t> value = count_of(keyword.value);
    if (!value) return wrong_value(keyword.path, name, keyword.value, "a count below 10^9");
    count.value = count.is_least ? std::max(count.value, *value) : std::min(count.value, *value);
    return true;
  }
  const bool low = name == "minimum" || name == "exclusiveMinimum";
  const bool high = name == "maximum" || name == "exclusiveMaximum";
  if (!low && !high && name != "multipleOf") return false;
  const bool is_exclusive = name.starts_with("ex");
  // A flag of the bound next to it, as OpenAPI 3.0 and draft 4 write it.
  if (is_exclusive && keyword.value.kind == JsonValue::Kind::boolean) return true;
  const auto value = keyword.value.kind == JsonValue::Kind::number
                         ? Decimal::parse(keyword.value.text)
                         : std::nullopt;
  if (!value) return wrong_value(keyword.path, name, keyword.value, "a number");
  const JsonValue* flag = keyword.schema.find(low ? "exclusiveMinimum" : "exclusiveMaximum");
  const Bound bound{*value, is_exclusive || (flag != nullptr && flag->flag)};
  if (low) tighten(into.numbers.low, bound, 1);
  if (high) tighten(into.numbers.high, bound, -1);
  if (!low && !high) {
    if (value->negative || value->is_zero()) {
      return wrong_value(keyword.path, name, keyword.value, "a number above 0");
    }
    into.numbers.multiples_of.push_back(*value);
  }
  return true;
}

Result<bool> SchemaReader::text_keyword(const Keyword& keyword) {
  const bool is_format = keyword.name == "format";
  if (!is_format && keyword.name != "pattern") return false;
  if (!keyword.value.is_string()) {
    return wrong_value(keyword.path, keyword.name, keyword.value, "a string");
  }
  std::string text = keyword.value.text;
  if (is_format) {
    text = format_pattern(text);
    if (text.empty()) {
      // JSON Schema, validation, 7.2.3: a format that is not known is an annotation.
      notes_.add("format " + keyword.value.text,
                 at_schema(keyword.path, "the format " + in_quotes(keyword.value.text) +
                                             " is not known here – it is ignored, and nothing is "
                                             "checked of it"));
      return true;
    }
  }
  keyword.into.patterns.push_back({std::move(text), is_format, keyword.path});
  return true;
}

Result<bool> SchemaReader::object_keyword(const Keyword& keyword) {
  if (keyword.name == "properties") {
    if (keyword.value.is_object()) return true;  // merge_properties() reads it
    return wrong_value(keyword.path, keyword.name, keyword.value, "an object of schemas");
  }
  if (keyword.name == "additionalProperties") return true;
  if (keyword.name != "required") return false;
  if (keyword.value.kind != JsonValue::Kind::array) {
    return wrong_value(keyword.path, keyword.name, keyword.value, "an array of names");
  }
  if (keyword.into.required.size() + keyword.value.items.size() > kMostMembers) {
    return unsupported(at_schema(keyword.path, "more than " + std::to_string(kMostMembers) +
                                                   " properties are required – that is the limit"));
  }
  for (const JsonValue& name : keyword.value.items) {
    if (!name.is_string()) return wrong_value(keyword.path, "required", name, "names");
    if (!keyword.into.requires_property(name.text)) keyword.into.required.push_back(name.text);
  }
  return true;
}

Result<bool> SchemaReader::array_keyword(const Keyword& keyword) {
  const std::string& name = keyword.name;
  if (name == "prefixItems") {
    if (keyword.value.kind == JsonValue::Kind::array) return true;
    return wrong_value(keyword.path, name, keyword.value, "an array of schemas");
  }
  if (name == "items" || name == "additionalItems") return true;
  // Said to be false, it says nothing.
  return name == "uniqueItems" && keyword.value.kind == JsonValue::Kind::boolean &&
         !keyword.value.flag;
}

}  // namespace tenon::grammar
