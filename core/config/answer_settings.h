// What someone may say about an answer: on the command line, in a workload, in a file of prompts.
// The same names everywhere (docs/formats/generation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/vendor_setting.h"
#include "core/request/parameters.h"
#include "core/request/sampling_keys.h"

namespace tenon {

// Absent members, and empty lists, leave it to whoever is asked next.
struct AnswerSettings {
  SamplingValues sampling;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> max_tokens, min_tokens;
  std::optional<uint32_t> samples, best_of, beams;
  std::optional<double> length_penalty;
  std::optional<std::string> early_stopping;  // "false", "true" or "never"
  std::optional<uint32_t> block_length, steps;
  std::optional<std::string> remasking;  // "low_confidence" or "random"
  std::optional<uint32_t> logprobs;
  std::optional<bool> prompt_logprobs, ignore_eos, include_stop;
  std::optional<std::string> order;       // stages by name
  std::optional<std::string> adapter;     // by name; "none" = the base model
  std::vector<std::string> stop;          // texts
  std::vector<std::string> bad_words;     // texts
  std::vector<std::string> dry_breakers;  // texts
  std::vector<TokenId> stop_tokens, allowed_tokens;
  std::vector<LogitBias> logit_bias;
  std::vector<VendorSetting> params;  // of third parties
};

// `first`, completed by `then`.
AnswerSettings overlaid(AnswerSettings first, const AnswerSettings& then);

// What was said, one by one, by the names of parameters(): absent members are left out.
using AnswerValue =
    std::variant<int64_t, double, bool, std::string, std::vector<std::string>, std::vector<TokenId>,
                 std::vector<LogitBias>, std::vector<VendorSetting>>;
struct NamedSetting {
  std::string_view name;
  AnswerValue value;
};
std::vector<NamedSetting> named_settings(const AnswerSettings& answer);

// Each puts what was written for `parameter` in its place, or says what is wrong with it; the text
// is empty where nothing is. The parameter is of that kind.
std::string set_number(AnswerSettings& answer, const Parameter& parameter,
                       const WrittenNumber& written);
std::string set_flag(AnswerSettings& answer, const Parameter& parameter, bool value);
std::string set_word(AnswerSettings& answer, const Parameter& parameter, std::string_view word);
std::string add_text(AnswerSettings& answer, const Parameter& parameter, std::string_view text);
std::string add_id(AnswerSettings& answer, const Parameter& parameter, const WrittenNumber& id);
// What is wrong with a list of ids that has none: nothing could be generated, or nothing is meant.
std::string no_ids_fault(const Parameter& parameter);
// `token` as text: keys of TOML and JSON are.
std::string add_bias(AnswerSettings& answer, std::string_view token, const WrittenNumber& bias);
std::string add_setting(AnswerSettings& answer, VendorSetting setting);

}  // namespace tenon
