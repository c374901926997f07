// How the table of fields is read; the table itself is field_table.cc.
#include <algorithm>

#include "core/base/quote.h"
#include "core/request/parameters.h"
#include "core/server/api/read/field_table.h"

namespace tenon::api {
namespace {

bool takes_parameters(Place place) {
  return place == Place::completions || place == Place::chat || place == Place::responses ||
         place == Place::messages;
}

// Short, whatever a request says.
std::string shown(const Json& value) {
  if (value.is_string()) return shown_text(value.get_ref<const std::string&>());
  if (value.is_array() && !value.empty()) return "a list";
  if (value.is_object() && !value.empty()) return "an object";
  return value.dump();
}

}  // namespace

bool FieldRule::is_neutral(const Json& value) const {
  if (value.is_null()) return true;
  const Json values = Json::parse(neutral);
  return std::find(values.begin(), values.end(), value) != values.end();
}

const FieldRule* find_rule(Place place, std::string_view name) {
  static constexpr FieldRule kParameter{.name = "", .use = FieldUse::taken};
  const uint32_t here = 1u << static_cast<unsigned>(place);
  for (const FieldRule& rule : field_rules()) {
    if (rule.name == name && (rule.places & here) != 0) return &rule;
  }
  return takes_parameters(place) && find_parameter(name) != nullptr ? &kParameter : nullptr;
}

std::string_view place_name(Place place) {
  constexpr std::string_view kNames[] = {
      "completions",    "chat",       "responses", "messages", "embeddings",
      "tokenize",       "detokenize", "a message", "an item",  "a tool of messages",
      "stream_options", "reasoning",  "text",      "thinking", "output_config",
      "others"};
  return kNames[static_cast<unsigned>(place)];
}

std::string refusal_of(const FieldRule& rule, const Json& value) {
  const Json values = Json::parse(rule.neutral);
  std::string text;
  if (!values.empty()) {
    text = "is " + shown(value) + " – it can only be ";
    for (size_t i = 0; i < values.size(); ++i) {
      text.append(i > 0 ? " or " : "").append(values[i].dump());
    }
    text += ": ";
  }
  const bool says_what_to_do = rule.sentence.find(" – ") != rule.sentence.npos;
  return text.append(rule.sentence).append(says_what_to_do ? "" : " – leave it out");
}

}  // namespace tenon::api
