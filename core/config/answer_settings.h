// What someone may say about an answer: on the command line, in a workload, in a file of prompts.
// The same names everywhere (docs/formats/generation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/sampling_keys.h"
#include "core/base/vendor_setting.h"

namespace tenon {

// Absent members, and empty lists, leave it to whoever is asked next.
struct AnswerSettings {
  SamplingValues sampling;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> max_tokens, min_tokens;
  std::optional<uint32_t> samples, best_of, beams;
  std::optional<double> length_penalty;
  std::optional<std::string> early_stopping;  // "false", "true" or "never"
  std::optional<uint32_t> logprobs;
  std::optional<bool> prompt_logprobs, ignore_eos, include_stop;
  std::optional<std::string> order;       // stages by name
  std::vector<std::string> stop;          // texts
  std::vector<std::string> bad_words;     // texts
  std::vector<std::string> dry_breakers;  // texts
  std::vector<TokenId> stop_tokens, allowed_tokens;
  std::vector<LogitBias> logit_bias;
  std::vector<VendorSetting> params;  // of third parties
};

// `first`, completed by `then`.
AnswerSettings overlaid(AnswerSettings first, const AnswerSettings& then);

// Names of whole numbers and of texts, lists included, beside those of sampling_keys(); for readers
// that go through them.
struct AnswerNumber {
  std::string_view name;
  uint32_t max;
  std::optional<uint32_t> AnswerSettings::*member;
};
struct AnswerFlag {
  std::string_view name;
  std::optional<bool> AnswerSettings::*member;
};
struct AnswerText {
  std::string_view name;
  std::optional<std::string> AnswerSettings::*member;
};
struct AnswerTexts {
  std::string_view name;
  std::vector<std::string> AnswerSettings::*member;
};
struct AnswerTokens {
  std::string_view name;
  std::vector<TokenId> AnswerSettings::*member;
};
inline constexpr AnswerNumber kAnswerNumbers[] = {
    {"max_tokens", 1u << 24, &AnswerSettings::max_tokens},
    {"min_tokens", 1u << 24, &AnswerSettings::min_tokens},
    {"samples", 1024, &AnswerSettings::samples},
    {"best_of", 1024, &AnswerSettings::best_of},
    {"beams", 256, &AnswerSettings::beams},
    {"logprobs", 1024, &AnswerSettings::logprobs},
};
inline constexpr AnswerFlag kAnswerFlags[] = {
    {"prompt_logprobs", &AnswerSettings::prompt_logprobs},
    {"ignore_eos", &AnswerSettings::ignore_eos},
    {"include_stop", &AnswerSettings::include_stop},
};
inline constexpr AnswerText kAnswerTexts[] = {
    {"early_stopping", &AnswerSettings::early_stopping},
    {"order", &AnswerSettings::order},
};
inline constexpr AnswerTexts kAnswerTextLists[] = {
    {"stop", &AnswerSettings::stop},
    {"bad_words", &AnswerSettings::bad_words},
    {"dry_breakers", &AnswerSettings::dry_breakers},
};
inline constexpr AnswerTokens kAnswerTokenLists[] = {
    {"stop_tokens", &AnswerSettings::stop_tokens},
    {"allowed_tokens", &AnswerSettings::allowed_tokens},
};

}  // namespace tenon
