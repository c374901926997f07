// Filters against a slow, plain reference that sorts everything; and what the contract says of
// ties, NaN, masks, seeds and verification.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/sampler.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plugins/sampler/standard/scan.h"
#include "tests/support/sampler_fixture.h"

namespace tenon {
namespace {

class Standard : public StandardFixture {};

// The definition, by sorting: kept tokens with their probabilities.
std::map<TokenId, double> reference(const std::vector<float>& logits,
                                    const SamplingParams& params) {
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (params.top_k > 0 && params.top_k < order.size()) order.resize(params.top_k);
  const double max = logits[static_cast<size_t>(order[0])];
  double total = 0.0;
  std::vector<double> weights;
  for (TokenId id : order) {
    weights.push_back(std::exp((logits[static_cast<size_t>(id)] - max) / params.temperature));
    total += weights.back();
  }
  double sum = 0.0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < params.top_p * total)) sum += weights[kept++];
  std::map<TokenId, double> probabilities;
  for (size_t i = 0; i < kept; ++i) probabilities[order[i]] = weights[i] / sum;
  return probabilities;
}

const std::vector<float> kTenths = {std::log(0.1f), std::log(0.2f), std::log(0.3f), std::log(0.4f)};

TEST_F(Standard, picks_the_most_likely_token_and_the_lowest_id_among_equals) {
  EXPECT_EQ(draw({1.0f, 3.0f, 2.0f, 3.0f}, {.temperature = 0.0f}).token, 1);
  std::vector<float> flat(1000, 0.5f);
  EXPECT_EQ(draw(flat, {.temperature = 0.0f}).token, 0);
  flat[700] = flat[999] = 0.75f;
  EXPECT_EQ(draw(flat, {.temperature = 0.0f}).token, 700);
}

TEST_F(Standard, picks_the_same_token_with_and_without_logprobs) {
  for (uint32_t count : {1u, 7u, 16u, 63u, 64u, 65u, 1000u}) {
    std::vector<float> logits = random_logits(count, count, 3.0f);
    if (count > 20) logits[5] = logits[17] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(draw(logits, {.temperature = 0.0f}).token,
              draw(logits, {.temperature = 0.0f, .logprobs = 1}).token);
  }
}

TEST_F(Standard, keeps_the_k_most_likely) {
  EXPECT_THAT(support(kTenths, {.top_k = 3}), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(support(kTenths, {.top_k = 1}), testing::ElementsAre(3));
  EXPECT_THAT(support(kTenths, {.top_k = 99}), testing::ElementsAre(0, 1, 2, 3));
}

TEST_F(Standard, breaks_ties_at_the_cut_by_lower_ids) {
  EXPECT_THAT(support({1.0f, 1.0f, 1.0f, 1.0f, 1.0f}, {.top_k = 2}), testing::ElementsAre(0, 1));
  EXPECT_THAT(support({0.0f, 1.0f, 0.0f, 0.0f}, {.top_k = 3}), testing::ElementsAre(0, 1, 2));
}

TEST_F(Standard, keeps_the_shortest_list_that_reaches_p) {
  EXPECT_THAT(support(kTenths, {.top_p = 0.69f}), testing::ElementsAre(2, 3));
  EXPECT_THAT(support(kTenths, {.top_p = 0.8f}), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(support(kTenths, {.top_p = 1e-6f}), testing::ElementsAre(3));
}

TEST_F(Standard, applies_top_p_to_what_top_k_left) {
  // Of {3: 4/7, 2: 3/7} the first alone reaches 0.55.
  EXPECT_THAT(support(kTenths, {.top_k = 2, .top_p = 0.55f}), testing::ElementsAre(3));
}

TEST_F(Standard, draws_with_the_probabilities_of_the_definition) {
  constexpr SamplingParams kParams[] = {{.temperature = 1.0f},
                                        {.temperature = 0.5f, .top_k = 7},
                                        {.temperature = 2.0f, .top_p = 0.7f},
                                        {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f}};
  const std::vector<float> logits = random_logits(40, 5, 6.0f);
  constexpr uint32_t kDraws = 15000;
  for (const SamplingParams& params : kParams) {
    std::map<TokenId, uint32_t> counts;
    for (uint32_t i = 0; i < kDraws; ++i) ++counts[draw(logits, params, {.position = i}).token];
    const std::map<TokenId, double> expected = reference(logits, params);
    for (const auto& [token, count] : counts) {
      EXPECT_TRUE(expected.contains(token)) << token;
    }
    for (const auto& [token, probability] : expected) {
      // Five standard deviations.
      const double sigma = std::sqrt(probability * (1 - probability) / kDraws);
      EXPECT_NEAR(counts[token] / double{kDraws}, probability, 5 * sigma + 1e-9) << token;
    }
  }
}

TEST_F(Standard, never_leaves_the_kept_tokens_of_a_large_vocabulary) {
  for (const float spread : {30.0f, 8.0f, 0.01f}) {
    const std::vector<float> logits = random_logits(50000, 3, spread);
    for (const SamplingParams& params :
         {SamplingParams{.temperature = 1.0f, .top_k = 40, .top_p = 0.9f},
          SamplingParams{.temperature = 1.0f, .top_p = 0.9f},
          SamplingParams{.temperature = 1.3f, .top_k = 5000, .top_p = 0.99f}}) {
      const std::map<TokenId, double> expected = reference(logits, params);
      size_t outside = 0;
      for (uint32_t i = 0; i < 100; ++i)
        outside += !expected.contains(draw(logits, params, {.position = i}).token);
      // The last kept token is where sums round; anything else inside is certain.
      EXPECT_EQ(outside, 0u) << spread << " " << params.top_k;
    }
  }
}

TEST_F(Standard, depends_on_seed_sample_and_position_alone) {
  const std::vector<float> logits = random_logits(500, 9, 4.0f);
  SamplingParams params;
  params.seed = 7;
  const TokenId first = draw(logits, params, {.position = 3}).token;
  (void)draw(logits, params, {.position = 4});
  EXPECT_EQ(draw(logits, params, {.position = 3}).token, first);
  std::set<TokenId> others;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    params.seed = seed;
    others.insert(draw(logits, params, {.position = 3}).token);
  }
  EXPECT_GT(others.size(), 10u);
}

TEST_F(Standard, treats_nan_as_impossible_and_fails_rows_without_a_finite_logit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(draw({nan, 1.0f, nan, 0.0f}, {.temperature = 0.0f}).token, 1);
  EXPECT_THAT(support({nan, 1.0f, -kInf, 1.0f}, {}), testing::ElementsAre(1, 3));
  EXPECT_EQ(draw({nan, -kInf, nan}, {}).token, kNoToken);
  EXPECT_EQ(draw({nan, -kInf, nan}, {.temperature = 0.0f, .logprobs = 2}).token, kNoToken);
  EXPECT_EQ(draw({0.0f, kInf, 1.0f}, {.top_k = 2, .top_p = 0.5f}).token, 1);
}

// Of a product that overflowed; next to a finite logit it counts as the largest number.
TEST_F(Standard, fails_rows_of_plus_infinity_whatever_is_asked_for) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<SamplingParams> asked = {{},
                                             {.temperature = 0.0f},
                                             {.temperature = 0.0f, .logprobs = 2},
                                             {.top_k = 1},
                                             {.top_p = 0.5f},
                                             {.min_p = 0.5f},
                                             {.typical_p = 0.5f},
                                             {.top_n_sigma = 1.0f},
                                             {.repetition_penalty = 1.5f},
                                             {.mirostat = 2},
                                             {.temperature = 0.7f, .logprobs = 3}};
  for (const SamplingParams& params : asked) {
    EXPECT_EQ(draw({kInf, kInf, kInf}, params).token, kNoToken);
    EXPECT_EQ(draw({kInf, -kInf, nan}, params).token, kNoToken);
    EXPECT_EQ(draw(std::vector<float>(200, kInf), params).token, kNoToken);
    EXPECT_NE(draw({kInf, 1.0f, kInf}, params).token, kNoToken);
  }
  EXPECT_EQ(draw({1.0f, 2.0f, kInf, kInf}, {.temperature = 0.0f}).token, 2);
  // The finite ones are forbidden.
  const uint64_t second = 0b10;
  EXPECT_EQ(draw({1.0f, kInf, 2.0f}, {}, {.allowed = &second}).token, kNoToken);
  EXPECT_EQ(draw({1.0f, kInf, 2.0f}, {.temperature = 0.0f}, {.allowed = &second}).token, kNoToken);
}

TEST_F(Standard, draws_only_what_is_allowed) {
  std::vector<float> logits = random_logits(130, 2, 5.0f);
  std::vector<uint64_t> allowed(3, 0);
  allowed[1] = uint64_t{1} << 5;
  allowed[2] = uint64_t{1} << 1;
  EXPECT_THAT(support(logits, {.temperature = 3.0f}, 200), testing::SizeIs(testing::Gt(50)));
  std::set<TokenId> seen;
  for (uint32_t i = 0; i < 200; ++i) {
    seen.insert(
        draw(logits, {.temperature = 3.0f}, {.position = i, .allowed = allowed.data()}).token);
  }
  EXPECT_THAT(seen, testing::ElementsAre(69, 129));
  allowed.assign(3, 0);
  EXPECT_EQ(draw(logits, {}, {.allowed = allowed.data()}).token, kNoToken);
}

TEST_F(Standard, reports_log_probabilities_before_any_filter) {
  const uint64_t only_first = 1;
  const Drawn drawn =
      draw(kTenths, {.temperature = 0.1f, .top_k = 1, .logprobs = 3}, {.allowed = &only_first});
  EXPECT_EQ(drawn.token, 0);
  EXPECT_NEAR(drawn.logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(drawn.rank, 4u);
  ASSERT_EQ(drawn.top.size(), 3u);
  EXPECT_EQ(drawn.top[0].token, 3);
  EXPECT_NEAR(drawn.top[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(drawn.top[2].token, 1);
  EXPECT_EQ(draw(kTenths, {.logprobs = 9}).top.size(), 4u);
}

TEST_F(Standard, survives_extreme_temperatures) {
  EXPECT_EQ(draw({1.0f, 2.0f}, {.temperature = 1e-38f}).token, 1);
  EXPECT_EQ(draw({1.0f, 2.0f}, {.temperature = 1e-45f}).token, 1);
  EXPECT_THAT(support({-1e30f, 1e30f}, {.temperature = 3e38f}, 200), testing::Contains(1));
}

TEST_F(Standard, verifies_drafts_with_the_tokens_that_it_would_have_drawn) {
  const SamplingParams params{.temperature = 1.0f, .top_p = 0.95f, .seed = 12};
  std::vector<std::vector<float>> logits;
  for (uint64_t i = 0; i < 4; ++i) logits.push_back(random_logits(200, 20 + i, 5.0f));
  std::vector<TokenId> alone;
  for (uint32_t i = 0; i < 4; ++i) alone.push_back(draw(logits[i], params, {.position = i}).token);
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  std::vector<SampleRow> rows;
  for (uint32_t i = 0; i < 4; ++i) rows.push_back(row_of(logits[i], params, {.position = i}));
  const auto verify = [&](std::vector<TokenId> drafts) {
    std::vector<SampleResult> results(4);
    VerifyRows given;
    given.rows = rows;
    given.drafts = drafts;
    VerifyResult out;
    out.tokens = results;
    EXPECT_TRUE(sampler_->verify({&given, 1}, {&out, 1}).ok());
    std::vector<TokenId> tokens;
    for (uint32_t i = 0; i < out.count; ++i) tokens.push_back(results[i].token);
    return tokens;
  };
  const TokenId wrong = (alone[1] + 1) % 200;
  EXPECT_EQ(verify({alone[0], alone[1], alone[2]}), alone);
  EXPECT_THAT(verify({alone[0], wrong, alone[2]}), testing::ElementsAre(alone[0], alone[1]));
  EXPECT_THAT(verify({(alone[0] + 1) % 200, alone[1], alone[2]}), testing::ElementsAre(alone[0]));
}

std::vector<CpuFeatures> isas() {
  return runnable_isas();
}

standard::Segment block_of(const float* values, const float& highest) {
  standard::Segment segment;
  segment.values = values;
  segment.block_max = &highest;
  segment.blocks = 1;
  segment.low = std::numeric_limits<float>::lowest();
  return segment;
}

TEST(Scan, weighs_exactly_to_a_few_units) {
  double worst = 0.0;
  const float highest = 0.0f;
  for (uint32_t i = 0; i < 200; ++i) {
    float x[standard::kBlock], y[standard::kBlock];
    for (uint32_t j = 0; j < standard::kBlock; ++j) {
      x[j] = -static_cast<float>(i * standard::kBlock + j) * 86.9f / (200 * standard::kBlock);
    }
    standard::scan_kernels(kCpuPortable).weigh_block(block_of(x, highest), y);
    for (uint32_t j = 0; j < standard::kBlock; ++j) {
      worst = std::max(worst, std::abs(y[j] / std::exp(static_cast<double>(x[j])) - 1.0));
    }
  }
  EXPECT_LT(worst, 3e-7);
  float far[standard::kBlock], zero[standard::kBlock];
  std::fill_n(far, standard::kBlock, -1e30f);
  standard::scan_kernels(kCpuPortable).weigh_block(block_of(far, highest), zero);
  EXPECT_EQ(zero[0], 0.0f);
}

TEST(Scan, gives_the_same_bits_on_every_instruction_set) {
  std::vector<float> logits = random_logits(standard::kBlock * 9, 4, 40.0f);
  logits[3] = kNan, logits[70] = kInf, logits[200] = -kInf, logits[300] = 1e-40f;
  struct Out {
    std::vector<float> values, maxima, weights;
    std::vector<double> sums;
    double spread = 0.0;
    standard::Moments moments;
  };
  const auto run = [&](CpuFeatures isa) {
    const standard::ScanKernels& scans = standard::scan_kernels(isa);
    Out out;
    out.values.resize(logits.size()), out.maxima.resize(9), out.sums.resize(9);
    out.weights.resize(standard::kBlock);
    scans.clean(logits.data(), out.values.data(), 9, out.maxima.data());
    standard::Segment segment = block_of(out.values.data(), out.maxima[0]);
    segment.blocks = 9;
    segment.low = -12.0f, segment.high = 18.5f, segment.peak = 18.5f, segment.scale = 0.7f;
    scans.weigh(segment, out.sums.data());
    scans.weigh_block(segment, out.weights.data());
    scans.spread(segment, &out.spread);
    scans.moments(segment, &out.moments);
    return out;
  };
  const Out first = run(kCpuPortable);
  EXPECT_GT(first.spread, 0.0);
  for (CpuFeatures isa : isas()) {
    const Out out = run(isa);
    EXPECT_EQ(out.values, first.values);
    EXPECT_EQ(out.maxima, first.maxima);
    EXPECT_EQ(out.sums, first.sums);
    EXPECT_EQ(out.weights, first.weights);
    EXPECT_EQ(out.spread, first.spread);
    EXPECT_EQ(out.moments.count, first.moments.count);
    EXPECT_EQ(out.moments.squares, first.moments.squares);
    EXPECT_EQ(standard::scan_kernels(isa).highest(logits.data(), 500),
              standard::scan_kernels(kCpuPortable).highest(logits.data(), 500));
  }
}

}  // namespace
}  // namespace tenon
