// Bias, bans and penalties, against values derived by hand.
#include <gmock/gmock.h>
#include <tenon/sdk/sampler/watermark.h>

#include <cmath>

#include "tests/support/sampler_fixture.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

class Edits : public StandardFixture {
 protected:
  void expect(const SamplingParams& params, const Before& before,
              const std::vector<float>& expected,
              const std::vector<float>& probabilities = {0.2f, 0.2f, 0.2f, 0.2f, 0.2f}) {
    EXPECT_THAT(filtered(probabilities, params, before), Pointwise(FloatNear(2e-6f), expected));
  }
};

TEST_F(Edits, add_a_bias_to_logits) {
  const LogitBias bias[] = {{0, std::log(3.0f)}, {3, -1e30f}};
  SamplingParams params;
  params.logit_bias = bias;
  expect(params, {}, {0.5f, 1 / 6.0f, 1 / 6.0f, 0, 1 / 6.0f});
}

TEST_F(Edits, keep_allowed_tokens_alone) {
  const TokenId allowed[] = {3, 1, 3};
  SamplingParams params;
  params.allowed_tokens = allowed;
  expect(params, {}, {0, 0.5f, 0, 0.5f, 0});
  // … of those that the row itself allows.
  const uint64_t mask = 0b01011;
  expect(params, {.allowed = &mask}, {0, 0.5f, 0, 0.5f, 0});
  const uint64_t other = 0b00101;
  expect(params, {.allowed = &other}, {0, 0, 0, 0, 0});
}

TEST_F(Edits, ban_a_bad_word_s_last_token_where_the_others_stand_before_it) {
  const TokenId whole[] = {2}, phrase[] = {0, 1, 3};
  const std::span<const TokenId> words[] = {whole, phrase};
  SamplingParams params;
  params.bad_words = words;
  expect(params, {.history = {1}}, {0.25f, 0.25f, 0, 0.25f, 0.25f});
  expect(params, {.history = {4, 0, 1}}, {1 / 3.0f, 1 / 3.0f, 0, 0, 1 / 3.0f});
  expect(params, {.history = {0, 1, 4}}, {0.25f, 0.25f, 0, 0.25f, 0.25f});
}

TEST_F(Edits, divide_positive_logits_of_seen_tokens_and_multiply_negative_ones) {
  const std::vector<float> logits = {2.0f, -2.0f, 2.0f, -2.0f};
  const std::vector<float> probs =
      distribution(logits, {.repetition_penalty = 2.0f}, {.history = {0, 1, 1}, .prompt = 2});
  EXPECT_NEAR(std::log(probs[2] / probs[0]), 1.0, 1e-5);
  EXPECT_NEAR(std::log(probs[3] / probs[1]), 2.0, 1e-5);
}

TEST_F(Edits, make_a_repeated_token_as_good_as_impossible) {
  const std::vector<float> once =
      filtered({0.1f, 0.2f, 0.3f, 0.4f}, {.repetition_penalty = 50.0f}, {.history = {0}});
  EXPECT_THAT(once, Pointwise(FloatNear(1e-6f), {0.0f, 2 / 9.0f, 3 / 9.0f, 4 / 9.0f}));
}

TEST_F(Edits, count_repetition_over_prompt_and_answer_and_the_others_over_the_answer) {
  // Token 0 stands in the prompt, token 1 twice in the answer.
  const Before before{.history = {0, 1, 1}, .prompt = 1};
  const float e = std::exp(-0.5f), f = std::exp(-0.6f);
  expect({.presence_penalty = 0.5f}, before,
         {1 / (4 + e), e / (4 + e), 1 / (4 + e), 1 / (4 + e), 1 / (4 + e)});
  expect({.frequency_penalty = 0.3f}, before,
         {1 / (4 + f), f / (4 + f), 1 / (4 + f), 1 / (4 + f), 1 / (4 + f)});
  const std::vector<float> both =
      filtered({0.2f, 0.2f, 0.2f, 0.2f, 0.2f}, {.repetition_penalty = 2.0f}, before);
  EXPECT_FLOAT_EQ(both[0], both[1]);
  EXPECT_LT(both[0], both[2]);
}

TEST_F(Edits, look_back_only_as_far_as_asked) {
  const Before before{.history = {0, 1, 2}, .prompt = 0};
  const std::vector<float> probs = filtered(
      {0.25f, 0.25f, 0.25f, 0.25f}, {.presence_penalty = 1.0f, .penalty_last_tokens = 2}, before);
  EXPECT_FLOAT_EQ(probs[0], probs[3]);
  EXPECT_LT(probs[1], probs[0]);
  EXPECT_FLOAT_EQ(probs[1], probs[2]);
}

TEST_F(Edits, of_penalties_count_in_the_logits_of_their_place) {
  // After a temperature of 0.5 a penalty of 1 is worth half a raw logit.
  const SamplingStage late[] = {SamplingStage::temperature, SamplingStage::penalties};
  SamplingParams params{.temperature = 0.5f, .presence_penalty = 1.0f};
  params.order = late;
  const auto probs = filtered({0.5f, 0.5f}, params, {.history = {0}});
  EXPECT_NEAR(std::log(probs[1] / probs[0]), 1.0, 1e-5);
  // … and after a cut they do not bring back what was cut.
  const SamplingStage cut[] = {SamplingStage::top_k, SamplingStage::penalties};
  params = {.top_k = 1, .presence_penalty = 50.0f};
  params.order = cut;
  EXPECT_THAT(filtered({0.6f, 0.4f}, params, {.history = {0}}), ElementsAre(1, 0));
}

TEST_F(Edits, punish_longer_repetitions_more) {
  const SamplingParams dry{.dry_multiplier = 1.0f, .dry_base = 1.1f, .dry_allowed_length = 2};
  const float e = std::exp(-1.0f);
  // 0 1 → 2 stood there before.
  expect(dry, {.history = {0, 1, 2, 0, 1}}, {1 / (3 + e), 1 / (3 + e), e / (3 + e), 1 / (3 + e)},
         {0.25f, 0.25f, 0.25f, 0.25f});
  // Nothing repeats, or too little.
  const std::vector<float> flat = {0.25f, 0.25f, 0.25f, 0.25f};
  expect(dry, {.history = {0, 1, 2, 3}}, flat, flat);
  expect(dry, {.history = {0, 2, 3, 0}}, flat, flat);
  // Three tokens repeat: 1.1 to the power of 1.
  const float longer = std::exp(-1.1f);
  expect(dry, {.history = {0, 1, 2, 3, 0, 1, 2}},
         {1 / (3 + longer), 1 / (3 + longer), 1 / (3 + longer), longer / (3 + longer)}, flat);
  // Of several continuations each counts with its longest repetition.
  const float two = std::exp(-2.0f), four = std::exp(-4.0f);
  const SamplingParams steep{.dry_multiplier = 2.0f, .dry_base = 2.0f, .dry_allowed_length = 2};
  expect(
      steep, {.history = {3, 0, 1, 2, 0, 1, 3, 3, 0, 1}},
      {1 / (2 + two + four), 1 / (2 + two + four), four / (2 + two + four), two / (2 + two + four)},
      flat);
}

TEST_F(Edits, of_repetitions_end_at_a_breaker) {
  const TokenId breakers[] = {1};
  SamplingParams dry{.dry_multiplier = 1.0f, .dry_base = 1.1f, .dry_allowed_length = 2};
  const std::vector<float> flat = {0.25f, 0.25f, 0.25f, 0.25f};
  dry.dry_breakers = breakers;
  expect(dry, {.history = {0, 1, 2, 0, 1}}, flat, flat);
  // Beyond the breaker 2 0 repeats, but only 0 counts.
  expect(dry, {.history = {1, 0, 2, 1, 0}}, flat, flat);
}

TEST_F(Edits, of_repetitions_look_back_only_as_far_as_asked) {
  SamplingParams dry{.dry_multiplier = 1.0f, .dry_allowed_length = 2, .dry_last_tokens = 4};
  const std::vector<float> flat = {0.25f, 0.25f, 0.25f, 0.25f};
  expect(dry, {.history = {0, 1, 2, 0, 1}}, flat, flat);
  dry.dry_last_tokens = 5;
  EXPECT_LT(filtered(flat, dry, {.history = {0, 1, 2, 0, 1}})[2], 0.2f);
}

TEST_F(Edits, count_for_greedy_choices_too) {
  const LogitBias bias[] = {{1, 5.0f}};
  SamplingParams params{.temperature = 0.0f};
  params.logit_bias = bias;
  EXPECT_EQ(draw({3.0f, 0.0f, 1.0f}, params).token, 1);
  EXPECT_EQ(
      draw({3.0f, 0.0f, 2.9f}, {.temperature = 0.0f, .presence_penalty = 1.0f}, {.history = {0}})
          .token,
      2);
}

TEST_F(Edits, leave_log_probabilities_alone) {
  const LogitBias bias[] = {{0, 100.0f}};
  SamplingParams params{.presence_penalty = 1.0f, .logprobs = 4};
  params.logit_bias = bias;
  const Drawn drawn = draw(logs({0.1f, 0.2f, 0.3f, 0.4f}), params, {.history = {3}});
  EXPECT_EQ(drawn.token, 0);
  EXPECT_NEAR(drawn.logprob, std::log(0.1), 1e-5);
  EXPECT_EQ(drawn.rank, 4u);
  EXPECT_EQ(drawn.top[0].token, 3);
}

TEST_F(Edits, score_a_given_token_in_place_of_a_draw) {
  const SamplingParams params{.temperature = 0.0f, .top_k = 1};
  const std::vector<float> logits = logs({0.1f, 0.2f, 0.3f, 0.4f});
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  SampleRow row = row_of(logits, params, {});
  row.score = 1;
  TokenLogprob top[2];
  SampleResult result;
  result.top = top;
  ASSERT_TRUE(sampler_->sample({&row, 1}, {&result, 1}).ok());
  EXPECT_EQ(result.token, 1);
  EXPECT_NEAR(result.logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(result.rank, 3u);
  EXPECT_EQ(result.top[0].token, 3);
  EXPECT_EQ(result.top_count, 2u);
}

TEST_F(Edits, of_a_watermark_favour_green_tokens) {
  const std::vector<float> flat(200, 0.0f);
  const SamplingParams params{
      .watermark_delta = 2.0f, .watermark_gamma = 0.4f, .watermark_key = 7, .watermark_context = 2};
  const sdk::GreenList green(7, static_cast<double>(0.4f), std::vector<TokenId>{5, 6});
  const auto probs = distribution(flat, params, {.history = {1, 5, 6}});
  uint32_t greens = 0;
  float lowest = 1.0f, highest = 0.0f;
  for (uint32_t id = 0; id < 200; ++id) {
    (green.has(id) ? highest : lowest) = probs[id];
    greens += green.has(id);
  }
  EXPECT_NEAR(greens, 80, 35);
  EXPECT_NEAR(std::log(highest / lowest), 2.0, 1e-5);
  // Too few tokens before: no watermark.
  EXPECT_FLOAT_EQ(distribution(flat, params, {.history = {1}})[0], 1 / 200.0f);
}

TEST(Watermark, divides_the_vocabulary_by_gamma_and_anew_for_each_context_and_key) {
  const std::vector<TokenId> one = {1}, two = {2};
  for (const double gamma : {0.1, 0.25, 0.5}) {
    const sdk::GreenList a(1, gamma, one), b(1, gamma, two), c(2, gamma, one);
    uint32_t in_a = 0, in_both = 0, in_keys = 0;
    constexpr uint32_t kTokens = 40000;
    for (uint32_t id = 0; id < kTokens; ++id) {
      in_a += a.has(id);
      in_both += a.has(id) && b.has(id);
      in_keys += a.has(id) && c.has(id);
    }
    const auto near = [&](uint32_t count, double p) {
      EXPECT_NEAR(count / double{kTokens}, p, 5 * std::sqrt(p * (1 - p) / kTokens));
    };
    near(in_a, gamma);
    near(in_both, gamma * gamma);
    near(in_keys, gamma * gamma);
  }
}

TEST(Watermark, scores_by_the_normal_approximation) {
  const sdk::WatermarkScore score = sdk::watermark_score(100, 40, 0.25);
  EXPECT_NEAR(score.z, 15 / std::sqrt(18.75), 1e-12);
  EXPECT_NEAR(score.p, 0.000266, 1e-6);
  EXPECT_EQ(sdk::watermark_score(0, 0, 0.25).p, 1.0);
}

}  // namespace
}  // namespace tenon
