// What tests of the standard sampler share: the sampler, rows to draw from, and what comes of them.
#pragma once

#include <gtest/gtest.h>
#include <tenon/sampler.h>
#include <tenon/sdk/random.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Drawn {
  TokenId token = kNoToken;
  float logprob = 0.0f;
  uint32_t rank = 0;
  std::vector<TokenLogprob> top;
};

// Tokens before the one to draw, and what else a row may have.
struct Before {
  std::vector<TokenId> history = {};
  uint32_t prompt = 0;
  uint32_t position = 0;
  const uint64_t* allowed = nullptr;
};

inline std::vector<float> random_logits(uint32_t count, uint64_t seed, float spread) {
  std::vector<float> logits(count);
  for (uint32_t i = 0; i < count; ++i) {
    const double u = sdk::uniform({seed, 0, i}, RandomPurpose::sample);
    logits[i] = static_cast<float>((u - 0.5) * spread);
  }
  return logits;
}

inline std::vector<float> logs(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

// A text as it grows: every row's logits follow from the tokens before it.
struct Story {
  uint32_t vocabulary = 40;
  uint64_t seed = 1;
  float spread = 6.0f;

  std::vector<float> logits_after(std::span<const TokenId> history) const {
    uint64_t hash = seed;
    for (TokenId token : history)
      hash = hash * 6364136223846793005u + static_cast<uint64_t>(token) + 1;
    return random_logits(vocabulary, hash >> 8, spread);
  }
};

class StandardFixture : public testing::Test {
 protected:
  // The row looks at the history of `before`, which must outlive it where it has any.
  static SampleRow row_of(const std::vector<float>& logits, const SamplingParams& params,
                          const Before& before) {
    SampleRow row;
    row.seq = 1;
    row.logits = logits.data();
    row.vocabulary = static_cast<uint32_t>(logits.size());
    row.history = before.history;
    row.prompt_tokens = before.prompt;
    row.key = {params.seed, 0, before.position};
    row.allowed = before.allowed;
    return row;
  }

  Drawn draw(const std::vector<float>& logits, const SamplingParams& params,
             const Before& before = {}) {
    EXPECT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
    std::vector<TokenLogprob> room(params.logprobs);
    SampleResult result;
    result.top = room;
    const SampleRow row = row_of(logits, params, before);
    EXPECT_TRUE(sampler_->sample({&row, 1}, {&result, 1}).ok());
    EXPECT_TRUE(sampler_->end(1).ok());
    room.resize(result.top_count);
    return {result.token, result.logprob, result.rank, room};
  }

  // Tokens that come up in many draws.
  std::set<TokenId> support(const std::vector<float>& logits, const SamplingParams& params,
                            uint32_t draws = 3000) {
    std::set<TokenId> seen;
    for (uint32_t i = 0; i < draws; ++i) {
      seen.insert(draw(logits, params, {.position = i}).token);
    }
    return seen;
  }

  std::vector<float> distribution(const std::vector<float>& logits, const SamplingParams& params,
                                  const Before& before = {}) {
    EXPECT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
    std::vector<float> probs(logits.size(), kNan);
    EXPECT_TRUE(sampler_->distribution(row_of(logits, params, before), probs).ok());
    EXPECT_TRUE(sampler_->end(1).ok());
    return probs;
  }

  // Of logits whose probabilities are given.
  std::vector<float> filtered(const std::vector<float>& probabilities, const SamplingParams& params,
                              const Before& before = {}) {
    return distribution(logs(probabilities), params, before);
  }

  // The token drawn after `history` without drafts.
  TokenId step(const Story& story, const std::vector<TokenId>& history, uint32_t prompt,
               const SamplingParams& params) {
    const std::vector<float> logits = story.logits_after(history);
    const Before nothing;
    SampleRow row = row_of(logits, params, nothing);
    row.history = history;
    row.prompt_tokens = prompt;
    row.key.position = static_cast<uint32_t>(history.size());
    SampleResult result;
    EXPECT_TRUE(sampler_->sample({&row, 1}, {&result, 1}).ok());
    return result.token;
  }

  TestHost host_;
  PluginInstance<Sampler> sampler_{"standard", host_};
};

}  // namespace tenon
