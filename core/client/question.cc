#include "core/client/question.h"

#include <nlohmann/json.hpp>

namespace tenon::client {
namespace {

using Json = nlohmann::ordered_json;

struct FieldName {
  std::string_view setting;
  std::string_view field;
};
// Where the wire has another name than files.
constexpr FieldName kFieldNames[] = {
    {"samples", "n"},
    {"stop_tokens", "stop_token_ids"},
    {"include_stop", "include_stop_str_in_output"},
    {"allowed_tokens", "allowed_token_ids"},
};

std::string field_of(std::string_view setting) {
  for (const FieldName& known : kFieldNames) {
    if (known.setting == setting) return std::string(known.field);
  }
  return std::string(setting);
}

Json json_of(const std::vector<LogitBias>& biases) {
  Json object = Json::object();
  for (const LogitBias& bias : biases) object[std::to_string(bias.token)] = shortest(bias.bias);
  return object;
}

Json json_of(const std::vector<VendorSetting>& settings) {
  Json object = Json::object();
  for (const VendorSetting& one : settings) {
    object[one.key] = one.is_text ? Json(one.text) : Json(one.number);
  }
  return object;
}

template <typename T>
Json json_of(const T& value) {
  return value;
}

void put_logprobs(const Question& question, const Json& count, Json& body) {
  if (!question.chat) {
    body["logprobs"] = count;
    return;
  }
  body["logprobs"] = true;
  body["top_logprobs"] = count;
}

}  // namespace

std::string path_of(const Question& question) {
  return question.chat ? "/v1/chat/completions" : "/v1/completions";
}

Result<std::string> body_of(const Question& question) {
  if (question.chat && question.tokens) {
    return invalid_argument(
        "the prompt is token ids – a chat takes texts alone – give texts, or leave the chat out");
  }
  Json body = {{"model", question.model}};
  if (question.chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", question.text}}});
  } else if (question.tokens) {
    body["prompt"] = *question.tokens;
  } else {
    body["prompt"] = question.text;
  }
  for (const NamedSetting& setting : named_settings(question.answer)) {
    const Json value = std::visit([](const auto& said) { return json_of(said); }, setting.value);
    if (setting.name == "prompt_logprobs") {
      if (value == false) continue;
      return invalid_argument(
          "prompt_logprobs is true – servers are not asked for them here – leave it out");
    }
    if (setting.name == "logprobs") {
      put_logprobs(question, value, body);
    } else {
      body[field_of(setting.name)] = value;
    }
  }
  if (question.priority != 0) body["priority"] = question.priority;
  if (!question.cache_salt.empty()) body["cache_salt"] = question.cache_salt;
  if (question.stream) {
    body["stream"] = true;
    if (question.usage) body["stream_options"] = {{"include_usage", true}};
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tenon::client
