#include "core/config/answer_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tenon {
namespace {

constexpr int64_t kMostId = std::numeric_limits<TokenId>::max();

// { 17 = -5.0, 42 = 1 }: keys of a TOML table are texts.
void read_bias(TableReader& reader, const toml::table& table, std::vector<LogitBias>& out) {
  const toml::node* node = table.get("logit_bias");
  if (node == nullptr) return;
  const toml::table* biases = node->as_table();
  bool sound = biases != nullptr;
  if (sound) {
    for (const auto& [key, value] : *biases) {
      const std::string_view text = key.str();
      TokenId id = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
      const auto bias = value.value<double>();
      sound = sound && error == std::errc() && end == text.data() + text.size() && bias;
      if (sound) out.push_back({id, static_cast<float>(*bias)});
    }
  }
  if (!sound) {
    reader.error(node->source(),
                 "'logit_bias' must be a table of token ids and numbers, such as "
                 "{ 17 = -5.0 }");
  }
}

// { "acme.heat" = 0.5, "acme.mode" = "slow" }
void read_params(TableReader& reader, const toml::table& table, std::vector<VendorSetting>& out) {
  const toml::node* node = table.get("params");
  if (node == nullptr) return;
  const toml::table* params = node->as_table();
  bool sound = params != nullptr;
  if (sound) {
    for (const auto& [key, value] : *params) {
      VendorSetting& setting = out.emplace_back();
      setting.key = key.str();
      setting.is_text = value.is_string();
      setting.number = value.is_number() ? *value.value<double>() : 0.0;
      setting.text = value.value<std::string>().value_or("");
      sound = sound && (value.is_string() || value.is_number());
    }
  }
  if (!sound) {
    reader.error(node->source(),
                 "'params' must be a table of quoted keys and numbers or texts, such as "
                 "{ \"acme.heat\" = 0.5 }");
  }
}

}  // namespace

void add_answer_keys(std::vector<std::string_view>& keys) {
  for (const SamplingKey& key : sampling_keys()) keys.push_back(key.name);
  for (const AnswerNumber& key : kAnswerNumbers) keys.push_back(key.name);
  for (const AnswerFlag& key : kAnswerFlags) keys.push_back(key.name);
  for (const AnswerText& key : kAnswerTexts) keys.push_back(key.name);
  for (const AnswerTexts& key : kAnswerTextLists) keys.push_back(key.name);
  for (const AnswerTokens& key : kAnswerTokenLists) keys.push_back(key.name);
  for (std::string_view key : {"length_penalty", "logit_bias", "params"}) keys.push_back(key);
}

void read_answer(TableReader& reader, const toml::table& table,
                 std::span<const std::string_view> others, AnswerSettings& out) {
  const auto mine = [&](std::string_view key) {
    return table.get(key) != nullptr &&
           std::find(others.begin(), others.end(), key) == others.end();
  };
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const SamplingKey& key = sampling_keys()[i];
    if (!mine(key.name)) continue;
    if (key.whole) {
      const auto value = reader.integer(table, key.name, static_cast<int64_t>(key.min),
                                        static_cast<int64_t>(key.max));
      if (value) out.sampling[i] = static_cast<double>(*value);
    } else {
      out.sampling[i] = reader.real(table, key.name, key.min, key.max);
    }
  }
  for (const AnswerNumber& key : kAnswerNumbers) {
    if (!mine(key.name)) continue;
    const auto value = reader.integer(table, key.name, 0, key.max);
    if (value) out.*key.member = static_cast<uint32_t>(*value);
  }
  for (const AnswerFlag& key : kAnswerFlags) {
    if (!mine(key.name)) continue;
    bool value = false;
    reader.flag(table, key.name, value);
    out.*key.member = value;
  }
  for (const AnswerText& key : kAnswerTexts) {
    if (!mine(key.name)) continue;
    std::string value;
    reader.text(table, key.name, value);
    out.*key.member = value;
  }
  for (const AnswerTexts& key : kAnswerTextLists) reader.texts(table, key.name, out.*key.member);
  for (const AnswerTokens& key : kAnswerTokenLists) {
    reader.integers(table, key.name, 0, kMostId, out.*key.member);
  }
  out.length_penalty = reader.real(table, "length_penalty", -100.0, 100.0);
  read_bias(reader, table, out.logit_bias);
  read_params(reader, table, out.params);
}

}  // namespace tenon
