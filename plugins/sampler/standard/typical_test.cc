// Typical acceptance: which drafts are kept follows from the target's distribution alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/sampler.h>

#include <cmath>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<TokenId>;

constexpr ResolvedFact kFacts[] = {{"sampler.verify", "typical", 0}};

class Typical : public testing::Test {
 protected:
  // What comes of drafts where every row has the probabilities `shares`.
  Tokens verify(const std::vector<float>& shares, const Tokens& drafts, float temperature = 1.0f,
                const std::vector<int32_t>& parents = {}, uint64_t seed = 1) {
    std::vector<float> logits;
    for (const float share : shares) logits.push_back(std::log(share));
    const SamplingParams params{.temperature = temperature, .seed = seed};
    EXPECT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
    Tokens all = {0};
    all.insert(all.end(), drafts.begin(), drafts.end());
    std::vector<SampleRow> rows;
    for (size_t i = 0; i <= drafts.size(); ++i) {
      SampleRow& row = rows.emplace_back();
      row.seq = 1;
      row.logits = logits.data();
      row.vocabulary = static_cast<uint32_t>(logits.size());
      row.history = std::span(all).first(parents.empty() ? 1 + i : 1);
      row.prompt_tokens = 1;
      row.key = {seed, 0, static_cast<uint32_t>(1 + i)};
    }
    std::vector<SampleResult> results(drafts.size() + 1);
    path_.assign(drafts.size(), 99);
    const VerifyRows given{rows, drafts, parents, nullptr};
    VerifyResult result{results, path_, 0};
    EXPECT_TRUE(sampler_->verify({&given, 1}, {&result, 1}).ok());
    EXPECT_TRUE(sampler_->end(1).ok());
    Tokens tokens;
    for (uint32_t i = 0; i < result.count; ++i) tokens.push_back(results[i].token);
    path_.resize(result.count > 0 ? result.count - 1 : 0);
    return tokens;
  }

  TestHost host_;
  PluginInstance<Sampler> sampler_{"standard", host_, {}, {kFacts, 1}};
  std::vector<uint32_t> path_;
};

// H of {0.5, 0.3, 0.15, 0.05} is 1.142, so 0.3 · exp(-H) = 0.0958: the threshold is 0.09.
TEST_F(Typical, likely_drafts_are_kept_and_others_are_not) {
  const std::vector<float> shares = {0.5f, 0.3f, 0.15f, 0.05f};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_THAT(Tokens(verify(shares, {2, 1}, 1.0f, {}, seed)).size(), 3u);
    const Tokens refused = verify(shares, {2, 3, 1}, 1.0f, {}, seed);
    ASSERT_EQ(refused.size(), 2u) << "token 3 has 0.05";
    EXPECT_EQ(refused[0], 2);
  }
}

// Of 100 tokens alike, H = ln 100: the threshold is 0.003.
TEST_F(Typical, where_nothing_is_likely_less_is_enough) {
  const std::vector<float> flat(100, 0.01f);
  EXPECT_EQ(verify(flat, {7, 8, 9}).size(), 4u);
  EXPECT_THAT(path_, ElementsAre(0, 1, 2));
}

TEST_F(Typical, greedy_rows_keep_what_they_would_have_drawn) {
  const std::vector<float> shares = {0.2f, 0.45f, 0.35f};
  EXPECT_THAT(verify(shares, {1, 1}, 0.0f), ElementsAre(1, 1, 1));
  EXPECT_THAT(verify(shares, {1, 2}, 0.0f), ElementsAre(1, 1));
  EXPECT_THAT(verify(shares, {kNoToken}, 0.0f), ElementsAre(1));
}

TEST_F(Typical, of_siblings_the_likeliest_is_kept) {
  const std::vector<float> shares = {0.5f, 0.3f, 0.15f, 0.05f};
  // Two first tokens, and one after the second of them.
  const Tokens tokens = verify(shares, {2, 1, 0}, 1.0f, {-1, -1, 1});
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[0], 1);
  EXPECT_EQ(tokens[1], 0);
  EXPECT_THAT(path_, ElementsAre(1, 2));
}

}  // namespace
}  // namespace tenon
