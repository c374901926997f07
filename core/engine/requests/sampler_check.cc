#include "core/engine/requests/sampler_check.h"

#include <algorithm>
#include <string_view>

#include "core/base/text.h"
#include "core/engine/requests/request_check.h"

namespace tenon {
namespace {

struct Asked {
  std::string_view word;  // of the fact
  std::string_view by;    // what of the request asks for it; empty = nothing does
};

std::string_view first_of(std::initializer_list<std::pair<bool, std::string_view>> settings) {
  for (const auto& [set, name] : settings) {
    if (set) return name;
  }
  return {};
}

// Which word each setting needs that is not as it is by default.
std::vector<Asked> asked_of_sampler(const Request& request) {
  const SamplingParams& s = request.sampling;
  const SamplingParams plain;
  const SamplingLists& lists = request.lists;
  std::vector<Asked> asked = {
      {"penalties",
       first_of({{s.repetition_penalty != plain.repetition_penalty, "repetition_penalty"},
                 {s.presence_penalty != 0.0f, "presence_penalty"},
                 {s.frequency_penalty != 0.0f, "frequency_penalty"}})},
      {"dry", first_of({{s.dry_multiplier != 0.0f, "dry_multiplier"}})},
      {"temperature",
       first_of({{s.temperature != plain.temperature && s.temperature != 0.0f, "temperature"},
                 {s.dynamic_temperature_range != 0.0f, "dynamic_temperature_range"}})},
      {"top_n_sigma", first_of({{s.top_n_sigma != 0.0f, "top_n_sigma"}})},
      {"top_k", first_of({{s.top_k != 0, "top_k"}})},
      {"typical_p", first_of({{s.typical_p != 1.0f, "typical_p"}})},
      {"top_p", first_of({{s.top_p != 1.0f, "top_p"}})},
      {"min_p", first_of({{s.min_p != 0.0f, "min_p"}})},
      {"xtc", first_of({{s.xtc_probability != 0.0f, "xtc_probability"}})},
      {"mirostat", first_of({{s.mirostat != 0, "mirostat"}})},
      {"watermark", first_of({{s.watermark_delta != 0.0f, "watermark_delta"}})},
      {"bias", first_of({{!lists.logit_bias.empty(), "logit_bias"}})},
      {"bans", first_of({{!lists.allowed_tokens.empty(), "allowed_tokens"},
                         {!lists.bad_words.empty(), "bad_words"}})}};
  for (const SamplingStage stage : lists.order)
    asked.push_back({sampling_stage_name(stage), "order"});
  return asked;
}

}  // namespace

const std::vector<std::string>& every_sampling_word() {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> all = {"bias", "bans", "mirostat", "watermark"};
    for (uint32_t stage = 0; stage < kSamplingStages; ++stage) {
      all.emplace_back(sampling_stage_name(static_cast<SamplingStage>(stage)));
    }
    return all;
  }();
  return kWords;
}

std::vector<RequestFault> sampler_faults(const Request& request, const RequestLimits& limits) {
  const std::string name = "sampler '" + std::string(limits.sampler_name) + "'";
  const std::span<const std::string> honoured = limits.sampler_stages;
  std::vector<RequestFault> faults;
  for (const Asked& asked : asked_of_sampler(request)) {
    if (asked.by.empty() || std::ranges::find(honoured, asked.word) != honoured.end()) continue;
    faults.push_back({asked.by, name + " does not say that it honours " + std::string(asked.by) +
                                    " (" + std::string(asked.word) +
                                    " in its fact sampler.stages: " +
                                    (honoured.empty() ? "nothing" : join(honoured, " ")) +
                                    ") – leave it out, or use a sampler that does"});
  }
  const bool ranks = request.beams > 0 || request.best_of > request.samples;
  const uint32_t wanted =
      std::max(request.sampling.logprobs, ranks || request.prompt_logprobs ? 1u : 0u);
  const std::string_view by = first_of({{request.sampling.logprobs > 0, "logprobs"},
                                        {request.prompt_logprobs, "prompt_logprobs"},
                                        {request.beams > 0, "beams"},
                                        {ranks, "best_of"}});
  if (wanted > limits.sampler_logprobs) {
    faults.push_back({by, name + " reports log probabilities of " +
                              std::to_string(limits.sampler_logprobs) +
                              " tokens at a position at most (its fact sampler.logprobs), and " +
                              std::to_string(wanted) +
                              " are needed – ask for fewer, or use a sampler that reports them"});
  }
  return faults;
}

}  // namespace tenon
