// Each stage against values derived by hand from its definition, on p = .1 .2 .3 .4 and the like;
// and every order of stages against a plain reference that sorts.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/sampler_fixture.h"

namespace tenon {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr float kClose = 1e-6f;

class Stages : public StandardFixture {
 protected:
  void expect(const std::vector<float>& probabilities, const SamplingParams& params,
              const std::vector<float>& expected) {
    EXPECT_THAT(filtered(probabilities, params), Pointwise(FloatNear(kClose), expected));
  }
};

const std::vector<float> kTenths = {0.1f, 0.2f, 0.3f, 0.4f};

TEST_F(Stages, of_a_request_that_asks_for_nothing_leave_the_model_s_distribution) {
  expect(kTenths, {}, kTenths);
}

TEST_F(Stages, top_k_keeps_the_most_likely) {
  expect(kTenths, {.top_k = 1}, {0, 0, 0, 1});
  expect(kTenths, {.top_k = 3}, {0, 2 / 9.0f, 3 / 9.0f, 4 / 9.0f});
  expect(kTenths, {.top_k = 4}, kTenths);
  expect(kTenths, {.top_k = 0}, kTenths);
}

TEST_F(Stages, top_p_keeps_the_shortest_list_that_reaches_p) {
  expect(kTenths, {.top_p = 0.0f}, {0, 0, 0, 1});
  expect(kTenths, {.top_p = 0.69f}, {0, 0, 3 / 7.0f, 4 / 7.0f});
  expect(kTenths, {.top_p = 0.8f}, {0, 2 / 9.0f, 3 / 9.0f, 4 / 9.0f});
  expect(kTenths, {.top_p = 1.0f}, kTenths);
}

TEST_F(Stages, min_p_keeps_what_is_not_far_below_the_most_likely) {
  expect(kTenths, {.min_p = 0.0f}, kTenths);
  expect(kTenths, {.min_p = 0.24f}, kTenths);
  expect(kTenths, {.min_p = 0.26f}, {0, 2 / 9.0f, 3 / 9.0f, 4 / 9.0f});
  expect(kTenths, {.min_p = 0.49f}, {0, 2 / 9.0f, 3 / 9.0f, 4 / 9.0f});
  expect(kTenths, {.min_p = 0.51f}, {0, 0, 3 / 7.0f, 4 / 7.0f});
  expect(kTenths, {.min_p = 0.74f}, {0, 0, 3 / 7.0f, 4 / 7.0f});
  expect(kTenths, {.min_p = 0.76f}, {0, 0, 0, 1});
  expect(kTenths, {.min_p = 1.05f}, {0, 0, 0, 1});
}

TEST_F(Stages, typical_p_keeps_what_surprises_about_as_much_as_expected) {
  expect({0.97f, 0.01f, 0.01f, 0.01f}, {.typical_p = 0.5f}, {1, 0, 0, 0});
  expect({0.4f, 0.2f, 0.2f, 0.2f}, {.typical_p = 0.5f}, {0, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f});
  expect(kTenths, {.typical_p = 1.0f}, kTenths);
}

TEST_F(Stages, top_n_sigma_counts_standard_deviations_from_the_highest) {
  expect(kTenths, {.top_n_sigma = 1.0f}, {0, 0, 3 / 7.0f, 4 / 7.0f});
  expect(kTenths, {.top_n_sigma = 0.0f}, kTenths);
  expect(kTenths, {.top_n_sigma = 3.0f}, kTenths);
}

TEST_F(Stages, xtc_takes_the_likely_ones_out_but_for_the_least_of_them) {
  const auto xtc = [](float threshold) {
    return SamplingParams{.xtc_probability = 0.99f, .xtc_threshold = threshold};
  };
  expect(kTenths, xtc(0.09f), {1, 0, 0, 0});
  expect(kTenths, xtc(0.19f), {1 / 3.0f, 2 / 3.0f, 0, 0});
  expect(kTenths, xtc(0.29f), {1 / 6.0f, 2 / 6.0f, 3 / 6.0f, 0});
  expect(kTenths, xtc(0.39f), kTenths);
  expect({0.05f, 0.9f, 0.05f}, xtc(0.51f), {0.05f, 0.9f, 0.05f});
}

TEST_F(Stages, xtc_happens_as_often_as_asked) {
  uint32_t hits = 0;
  constexpr uint32_t kTrials = 4000;
  for (uint32_t i = 0; i < kTrials; ++i) {
    const auto probs =
        filtered(kTenths, {.xtc_probability = 0.3f, .xtc_threshold = 0.2f}, {.position = i});
    hits += probs[3] == 0.0f;
  }
  // Five standard deviations.
  EXPECT_NEAR(hits / double{kTrials}, 0.3, 5 * std::sqrt(0.21 / kTrials));
}

TEST_F(Stages, temperature_flattens_and_sharpens) {
  expect(kTenths, {.temperature = 1.0f}, kTenths);
  expect(kTenths, {.temperature = 0.5f}, {1 / 30.0f, 4 / 30.0f, 9 / 30.0f, 16 / 30.0f});
  expect(kTenths, {.temperature = 0.0f}, {0, 0, 0, 1});
  expect(kTenths, {.temperature = 1e30f}, {0.25f, 0.25f, 0.25f, 0.25f});
}

TEST_F(Stages, dynamic_temperature_follows_the_entropy) {
  // Even odds have all the entropy there is: the highest temperature, which changes nothing here.
  expect({0.25f, 0.25f, 0.25f, 0.25f}, {.dynamic_temperature_range = 0.5f},
         {0.25f, 0.25f, 0.25f, 0.25f});
  // H = 0.6 ln 2 of ln 4: share 0.5·(0.9·log2(1/0.9) + 0.1·log2(1/0.1)) for two tokens of four.
  const double share = -(0.9 * std::log(0.9) + 0.1 * std::log(0.1)) / std::log(2.0);
  for (const double exponent : {1.0, 2.0}) {
    const double t = 0.5 + 1.0 * std::pow(share, exponent);
    const double a = std::pow(0.9, 1 / t), b = std::pow(0.1, 1 / t);
    expect({0.9f, 0.1f},
           {.dynamic_temperature_range = 0.5f,
            .dynamic_temperature_exponent = static_cast<float>(exponent)},
           {static_cast<float>(a / (a + b)), static_cast<float>(b / (a + b))});
  }
  // No entropy and a range that reaches 0: the lowest temperature is greedy.
  EXPECT_THAT(filtered({1.0f, 1e-30f}, {.dynamic_temperature_range = 1.0f}), ElementsAre(1, 0));
}

TEST_F(Stages, follow_the_order_of_the_request) {
  const SamplingStage top_p_first[] = {SamplingStage::top_p, SamplingStage::temperature};
  const SamplingStage temperature_first[] = {SamplingStage::temperature, SamplingStage::top_p};
  SamplingParams params{.temperature = 0.5f, .top_p = 0.8f};
  params.order = top_p_first;  // .4 + .3 + .2 reach .8
  expect(kTenths, params, {0, 4 / 29.0f, 9 / 29.0f, 16 / 29.0f});
  params.order = temperature_first;  // 16/30 + 9/30 do
  expect(kTenths, params, {0, 0, 9 / 25.0f, 16 / 25.0f});
}

TEST_F(Stages, that_an_order_leaves_out_are_not_applied) {
  const SamplingStage order[] = {SamplingStage::temperature};
  SamplingParams params{.temperature = 0.5f, .top_k = 1};
  params.order = order;
  expect(kTenths, params, {1 / 30.0f, 4 / 30.0f, 9 / 30.0f, 16 / 30.0f});
}

TEST_F(Stages, are_safe_where_nothing_or_everything_is_impossible) {
  const SamplingParams all{.temperature = 0.7f,
                           .top_k = 3,
                           .top_p = 0.9f,
                           .min_p = 0.1f,
                           .typical_p = 0.9f,
                           .top_n_sigma = 1.0f,
                           .xtc_probability = 1.0f};
  EXPECT_THAT(distribution({-kInf, kNan, -kInf}, all), Each(0.0f));
  EXPECT_THAT(distribution({-kInf, 2.0f, kNan}, all), ElementsAre(0, 1, 0));
  EXPECT_EQ(draw({-kInf, kNan, -kInf}, all).token, kNoToken);
}

// The definition of one stage over tokens sorted by rank. Weights need not sum to 1.
struct Ranked {
  uint32_t id;
  double weight;
};
using Ranking = std::vector<Ranked>;

void reference_stage(char stage, Ranking& ranking) {
  double total = 0.0;
  for (const Ranked& token : ranking) total += token.weight;
  double sum = 0.0;
  size_t kept = 0;
  switch (stage) {
    case 'k':
      ranking.resize(std::min<size_t>(ranking.size(), 100));
      return;
    case 'p':
      while (kept < ranking.size() && (kept == 0 || sum < 0.8 * total))
        sum += ranking[kept++].weight;
      ranking.resize(kept);
      return;
    case 'm':
      while (kept < ranking.size() && ranking[kept].weight >= 0.1 * ranking[0].weight) ++kept;
      ranking.resize(std::max<size_t>(kept, 1));
      return;
    case 'y': {
      double entropy = 0.0;
      for (const Ranked& token : ranking) {
        const double p = token.weight / total;
        if (p > 0.0) entropy -= p * std::log(p);
      }
      const auto oddness = [&](const Ranked& token) {
        return std::abs(-std::log(token.weight / total) - entropy);
      };
      std::stable_sort(ranking.begin(), ranking.end(),
                       [&](const Ranked& a, const Ranked& b) { return oddness(a) < oddness(b); });
      while (kept < ranking.size() && sum <= 0.9 * total) sum += ranking[kept++].weight;
      ranking.resize(kept);
      std::sort(ranking.begin(), ranking.end(), [](const Ranked& a, const Ranked& b) {
        return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
      });
      return;
    }
  }
}

SamplingStage stage_of(char letter) {
  switch (letter) {
    case 'k':
      return SamplingStage::top_k;
    case 'p':
      return SamplingStage::top_p;
    case 'm':
      return SamplingStage::min_p;
    default:
      return SamplingStage::typical_p;
  }
}

TEST_F(Stages, equal_a_reference_that_sorts_in_every_order) {
  // All 24 orders of four stages, on 10,000 tokens of different probabilities.
  std::vector<float> logits(10000);
  for (uint32_t i = 0; i < logits.size(); ++i) {
    logits[(i * 7919) % 10000] = std::log(static_cast<float>(i + 1)) * 3.0f;
  }
  std::string letters = "kmpy";
  do {
    Ranking ranking;
    for (uint32_t id = 0; id < logits.size(); ++id) {
      ranking.push_back({id, std::exp(static_cast<double>(logits[id]))});
    }
    std::sort(ranking.begin(), ranking.end(),
              [](const Ranked& a, const Ranked& b) { return a.weight > b.weight; });
    std::vector<SamplingStage> order;
    for (char letter : letters) {
      reference_stage(letter, ranking);
      order.push_back(stage_of(letter));
    }
    SamplingParams params{.top_k = 100, .top_p = 0.8f, .min_p = 0.1f, .typical_p = 0.9f};
    params.order = order;
    const std::vector<float> probs = distribution(logits, params);
    double total = 0.0;
    for (const Ranked& token : ranking) total += token.weight;
    EXPECT_EQ(std::count_if(probs.begin(), probs.end(), [](float p) { return p > 0.0f; }),
              static_cast<std::ptrdiff_t>(ranking.size()))
        << letters;
    for (const Ranked& token : ranking) {
      ASSERT_NEAR(probs[token.id], token.weight / total, 1e-6) << letters << " " << token.id;
    }
  } while (std::next_permutation(letters.begin(), letters.end()));
}

// Selection by buckets, where many tokens stay, and where many are equal.
TEST_F(Stages, keep_as_many_of_a_large_flat_row_as_the_definition_says) {
  for (const float spread : {0.0f, 1e-4f, 0.5f}) {
    const std::vector<float> logits = random_logits(50000, 8, spread);
    std::vector<uint32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
    double total = 0.0, sum = 0.0;
    for (float logit : logits) total += std::exp(static_cast<double>(logit));
    size_t expected = 0;
    while (sum < 0.95 * total) {
      sum += std::exp(static_cast<double>(logits[order[expected++]]));
    }
    const auto kept = [&](const SamplingParams& params) {
      const std::vector<float> probs = distribution(logits, params);
      return static_cast<size_t>(
          std::count_if(probs.begin(), probs.end(), [](float p) { return p > 0.0f; }));
    };
    // Weights are rounded to 24 bits.
    EXPECT_NEAR(static_cast<double>(kept({.top_p = 0.95f})), static_cast<double>(expected), 1.0);
    EXPECT_EQ(kept({.top_k = 30000}), 30000u);
    const std::vector<float> probs = distribution(logits, {.top_k = 30000});
    EXPECT_GT(probs[order[29999]], 0.0f);
    EXPECT_EQ(probs[order[30000]], 0.0f);
  }
}

TEST_F(Stages, refuse_an_order_that_makes_no_sense) {
  const PluginDescriptor* descriptor = find_descriptor("standard");
  alignas(16) std::byte options[64];
  descriptor->construct_options(options);
  const auto message = [&](std::string_view value) {
    OptionValue option;
    option.text = value;
    descriptor->options[0].store(options, option);
    return std::string(descriptor->validate(options).message());
  };
  EXPECT_EQ(message("top_k temperature"), "");
  EXPECT_EQ(message("top_k heat"),
            "option order: 'heat' is no stage – write some of penalties dry temperature "
            "top_n_sigma top_k typical_p top_p min_p xtc");
  EXPECT_EQ(message("top_k top_k"),
            "option order: 'top_k' stands there twice – name each stage once at most");
}

}  // namespace
}  // namespace tenon
