#include "tools/tenon/answer_json.h"

#include <charconv>
#include <limits>
#include <string>

namespace tenon {
namespace {

using Json = nlohmann::json;

Status bad_field(std::string_view key, std::string_view expected) {
  return invalid_argument("\"" + std::string(key) + "\" must be " + std::string(expected));
}

const Json* find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

template <typename T>
Status read_whole(const Json& object, std::string_view key, std::optional<T>& out) {
  const Json* found = find(object, key);
  if (found == nullptr) return {};
  if (!found->is_number_unsigned() || found->get<uint64_t>() > std::numeric_limits<T>::max()) {
    return bad_field(key, "a whole number in range");
  }
  out = found->get<T>();
  return {};
}

Status read_real(const Json& object, std::string_view key, std::optional<double>& out) {
  const Json* found = find(object, key);
  if (found == nullptr) return {};
  if (!found->is_number()) return bad_field(key, "a number");
  out = found->get<double>();
  return {};
}

Status read_sampling(const Json& object, SamplingValues& out) {
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const SamplingKey& key = sampling_keys()[i];
    TENON_RETURN_IF_ERROR(read_real(object, key.name, out[i]));
    if (!out[i]) continue;
    // Before the number is made to fit a narrower type.
    const std::string fault = sampling_fault(key, *out[i]);
    if (!fault.empty()) return invalid_argument(fault);
  }
  return {};
}

Status read_texts(const Json& object, std::string_view key, std::vector<std::string>& out) {
  const Json* found = find(object, key);
  if (found == nullptr) return {};
  if (found->is_string()) {
    out.push_back(found->get<std::string>());
    return {};
  }
  if (!found->is_array()) return bad_field(key, "a text or a list of texts");
  for (const Json& text : *found) {
    if (!text.is_string()) return bad_field(key, "a text or a list of texts");
    out.push_back(text.get<std::string>());
  }
  return {};
}

bool is_id(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<TokenId>::max());
}

Status read_ids(const Json& object, std::string_view key, std::vector<TokenId>& out) {
  const Json* found = find(object, key);
  if (found == nullptr) return {};
  if (!found->is_array()) return bad_field(key, "a list of token ids");
  for (const Json& id : *found) {
    if (!is_id(id)) return bad_field(key, "a list of token ids");
    out.push_back(id.get<TokenId>());
  }
  return {};
}

// {"17": -5.0}: JSON keys are texts.
Status read_bias(const Json& object, std::vector<LogitBias>& out) {
  const Json* found = find(object, "logit_bias");
  if (found == nullptr) return {};
  constexpr std::string_view kExpected = "an object of token ids and numbers";
  if (!found->is_object()) return bad_field("logit_bias", kExpected);
  for (const auto& [text, bias] : found->items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size() || !bias.is_number()) {
      return bad_field("logit_bias", kExpected);
    }
    out.push_back({id, bias.get<float>()});
  }
  return {};
}

// {"acme.heat": 0.5, "acme.mode": "slow"}
Status read_params(const Json& object, std::vector<VendorSetting>& out) {
  const Json* found = find(object, "params");
  if (found == nullptr) return {};
  constexpr std::string_view kExpected = "an object of keys and numbers or texts";
  if (!found->is_object()) return bad_field("params", kExpected);
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string() && !value.is_number()) return bad_field("params", kExpected);
    VendorSetting& setting = out.emplace_back();
    setting.key = key;
    setting.is_text = value.is_string();
    if (setting.is_text) {
      setting.text = value.get<std::string>();
    } else {
      setting.number = value.get<double>();
    }
  }
  return {};
}

}  // namespace

Status read_answer_json(const Json& object, AnswerSettings& out) {
  TENON_RETURN_IF_ERROR(read_sampling(object, out.sampling));
  TENON_RETURN_IF_ERROR(read_whole(object, "seed", out.seed));
  TENON_RETURN_IF_ERROR(read_real(object, "length_penalty", out.length_penalty));
  for (const AnswerNumber& key : kAnswerNumbers) {
    TENON_RETURN_IF_ERROR(read_whole(object, key.name, out.*key.member));
  }
  for (const AnswerFlag& key : kAnswerFlags) {
    const Json* found = find(object, key.name);
    if (found == nullptr) continue;
    if (!found->is_boolean()) return bad_field(key.name, "true or false");
    out.*key.member = found->get<bool>();
  }
  for (const AnswerText& key : kAnswerTexts) {
    const Json* found = find(object, key.name);
    if (found == nullptr) continue;
    // Of early_stopping, JSON has two values of its own.
    if (found->is_boolean()) {
      out.*key.member = found->get<bool>() ? "true" : "false";
    } else if (found->is_string()) {
      out.*key.member = found->get<std::string>();
    } else {
      return bad_field(key.name, "a text");
    }
  }
  for (const AnswerTexts& key : kAnswerTextLists) {
    TENON_RETURN_IF_ERROR(read_texts(object, key.name, out.*key.member));
  }
  for (const AnswerTokens& key : kAnswerTokenLists) {
    TENON_RETURN_IF_ERROR(read_ids(object, key.name, out.*key.member));
  }
  TENON_RETURN_IF_ERROR(read_params(object, out.params));
  return read_bias(object, out.logit_bias);
}

}  // namespace tenon
