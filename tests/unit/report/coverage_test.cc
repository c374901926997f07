// Intervals in thousands of simulated experiments: how often they hold what is true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/report/power.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/random_draws.h"
#include "core/report/statistics/sequence.h"
#include "core/report/statistics/verdict.h"

namespace tenon {
namespace {

constexpr int kExperiments = 2000;

using Draw = std::function<double(RandomDraws&)>;
double normal(RandomDraws& draws) {
  return 0.02 + 0.03 * draws.normal();
}
// Mean 0.02: most pairs are near it, some are far above, as on a machine with neighbours.
double skewed(RandomDraws& draws) {
  return 0.02 + 0.03 * (draws.exponential() - 1);
}

std::vector<double> experiment(RandomDraws& draws, const Draw& draw, int n) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(draw(draws));
  return values;
}

template <typename MakeInterval>
double coverage(const Draw& draw, int n, double truth, const MakeInterval& interval) {
  RandomDraws draws(5);
  int held = 0;
  for (int i = 0; i < kExperiments; ++i) {
    held += interval(experiment(draws, draw, n)).holds(truth) ? 1 : 0;
  }
  return static_cast<double>(held) / kExperiments;
}
const auto kCovers = testing::AllOf(testing::Ge(0.93), testing::Le(0.97));

TEST(Coverage, of_students_interval_is_95_percent_for_normal_ratios) {
  const auto interval = [](const auto& values) { return mean_interval(values, 0.95); };
  for (const int n : {4, 10, 30}) EXPECT_THAT(coverage(normal, n, 0.02, interval), kCovers) << n;
}

TEST(Coverage, of_the_bootstrap_is_95_percent_for_normal_and_for_skewed_ratios) {
  const auto interval = [](const auto& values) { return bootstrap_interval(values, 0.95, 3, 600); };
  for (const int n : {12, 30}) {
    EXPECT_THAT(coverage(normal, n, 0.02, interval), kCovers) << n;
    EXPECT_THAT(coverage(skewed, n, 0.02, interval), kCovers) << n;
  }
}

TEST(Coverage, of_a_quantiles_interval_is_at_least_what_was_asked) {
  const auto interval = [](const auto& values) { return quantile_interval(values, 0.9, 0.95); };
  const double truth = 0.02 + 0.03 * (-std::log(0.1) - 1);
  for (const int n : {60, 100}) {
    EXPECT_THAT(coverage(skewed, n, truth, interval),
                testing::AllOf(testing::Ge(0.945), testing::Le(0.985)))
        << n;
  }
}

TEST(Coverage, of_welchs_interval_is_95_percent_for_unlike_spreads) {
  RandomDraws draws(8);
  int held = 0;
  for (int i = 0; i < kExperiments; ++i) {
    std::vector<double> a, b;
    for (int j = 0; j < 6; ++j) a.push_back(draws.normal());
    for (int j = 0; j < 15; ++j) b.push_back(1 + 4 * draws.normal());
    held += difference_interval(a, b, 0.95).holds(1) ? 1 : 0;
  }
  EXPECT_THAT(static_cast<double>(held) / kExperiments, kCovers);
}

// Looks after every value and says how often an interval ever left the truth out.
template <typename MakeInterval>
double ever_wrong(const Draw& draw, double truth, const MakeInterval& interval) {
  RandomDraws draws(21);
  int wrong = 0;
  for (int i = 0; i < kExperiments; ++i) {
    std::vector<double> values;
    bool held = true;
    for (int n = 1; n <= 60 && held; ++n) {
      values.push_back(draw(draws));
      held = interval(values).holds(truth);
    }
    wrong += held ? 0 : 1;
  }
  return static_cast<double>(wrong) / kExperiments;
}

TEST(Sequence, stays_right_however_often_one_looks) {
  const auto sequence = [](const auto& values) { return mean_sequence(values, 0.95); };
  EXPECT_LE(ever_wrong(normal, 0.02, sequence), 0.05);
  EXPECT_GE(ever_wrong(normal, 0.02, sequence), 0.005) << "far too wide to be of use";
}

TEST(Sequence, is_needed_because_an_ordinary_interval_does_not) {
  const auto interval = [](const auto& values) { return mean_interval(values, 0.95); };
  EXPECT_GE(ever_wrong(normal, 0.02, interval), 0.2);
}

TEST(Sequence, is_unbounded_until_there_is_something_to_say) {
  const std::vector<double> values = {0.1, 0.11, 0.1, 0.11};
  EXPECT_FALSE(mean_sequence(std::span(values).first(3), 0.95).bounded());
  EXPECT_TRUE(mean_sequence(values, 0.95).bounded());
}

TEST(Sequence, is_wider_than_an_interval_that_is_looked_at_once) {
  RandomDraws draws(2);
  for (const int n : {6, 12, 40}) {
    const std::vector<double> values = experiment(draws, normal, n);
    const double ratio = mean_sequence(values, 0.95).high - mean_of(values);
    const double once = mean_interval(values, 0.95).high - mean_of(values);
    EXPECT_GT(ratio, once);
    EXPECT_LT(ratio, 2.2 * once) << n;
  }
}

// A comparison as the program does it: look after every pair from the fourth on, stop at a verdict.
Verdict compared(RandomDraws& draws, double effect, double deviation, int most_pairs) {
  std::vector<double> values;
  Verdict verdict = Verdict::inconclusive;
  for (int n = 0; n < most_pairs && verdict == Verdict::inconclusive; ++n) {
    values.push_back(effect + deviation * draws.normal());
    verdict = judge(mean_sequence(values, kVerdictConfidence), 0.01, 0, Better::higher);
  }
  return verdict;
}

TEST(Comparison, of_a_with_itself_finds_at_most_one_difference_in_twenty) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    RandomDraws draws(seed);
    int found = 0;
    for (int i = 0; i < 20; ++i) {
      const Verdict verdict = compared(draws, 0, 0.03, 40);
      found += verdict == Verdict::better || verdict == Verdict::worse ? 1 : 0;
    }
    EXPECT_LE(found, 1) << "seed " << seed;
  }
}

TEST(Comparison, finds_what_the_noise_floor_says_it_can_find) {
  constexpr double kDeviation = 0.02;
  const double effect = detectable(kDeviation, 20, kVerdictConfidence, Looks::always);
  RandomDraws draws(4);
  int found = 0;
  for (int i = 0; i < 500; ++i) {
    found += compared(draws, effect, kDeviation, 20) == Verdict::better ? 1 : 0;
  }
  EXPECT_GE(found, 400);
  EXPECT_EQ(compared(draws, 0.1, kDeviation, 20), Verdict::better);
}

TEST(Power, of_one_look_is_what_it_says) {
  constexpr double kDeviation = 0.02;
  const double effect = detectable(kDeviation, 12, 0.95, Looks::once);
  RandomDraws draws(6);
  int found = 0;
  for (int i = 0; i < kExperiments; ++i) {
    std::vector<double> values;
    for (int n = 0; n < 12; ++n) values.push_back(effect + kDeviation * draws.normal());
    found += mean_interval(values, 0.95).low > 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(found) / kExperiments, 0.8, 0.04);
}

}  // namespace
}  // namespace tenon
