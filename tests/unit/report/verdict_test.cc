#include "core/report/statistics/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/report/power.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/random_draws.h"
#include "core/report/statistics/steady.h"

namespace tenon {
namespace {

Interval between(double low, double high) {
  return {.estimate = (low + high) / 2, .low = low, .high = high};
}
Verdict judged(double low, double high, double floor = 0, Better better = Better::higher) {
  return judge(between(low, high), 0.01, floor, better);
}

TEST(Verdict, is_better_or_worse_where_the_interval_leaves_no_difference_out) {
  EXPECT_EQ(judged(0.005, 0.05), Verdict::better);
  EXPECT_EQ(judged(-0.05, -0.005), Verdict::worse);
}

TEST(Verdict, turns_round_where_lower_is_better) {
  EXPECT_EQ(judged(0.005, 0.05, 0, Better::lower), Verdict::worse);
  EXPECT_EQ(judged(-0.05, -0.005, 0, Better::lower), Verdict::better);
}

TEST(Verdict, is_equivalent_within_the_margin_even_if_there_is_a_difference) {
  EXPECT_EQ(judged(-0.004, 0.006), Verdict::equivalent);
  EXPECT_EQ(judged(0.002, 0.006), Verdict::equivalent);
}

TEST(Verdict, is_inconclusive_where_the_interval_holds_both) {
  EXPECT_EQ(judged(-0.02, 0.006), Verdict::inconclusive);
  EXPECT_EQ(judge(Interval{}, 0.01, 0, Better::higher), Verdict::inconclusive);
}

TEST(Verdict, must_clear_what_a_against_a_differed_by) {
  EXPECT_EQ(judged(0.015, 0.05, 0.02), Verdict::inconclusive);
  EXPECT_EQ(judged(0.025, 0.05, 0.02), Verdict::better);
}

TEST(LogRatios, leave_out_pairs_without_a_ratio) {
  const std::vector<double> a = {1, 0, 2, 4}, b = {1, 3, 0, 8};
  EXPECT_THAT(log_ratios(a, b), testing::ElementsAre(0.0, testing::DoubleEq(std::log(2.0))));
}

TEST(Interval, of_too_few_values_is_unbounded) {
  EXPECT_FALSE(mean_interval(std::vector<double>{1.0}, 0.95).bounded());
  EXPECT_FALSE(bootstrap_interval(std::vector<double>{1.0, 2.0, 3.0}, 0.95, 1).bounded());
}

TEST(Interval, of_the_bootstrap_is_the_same_for_the_same_seed) {
  const std::vector<double> values = {0.1, 0.4, 0.2, 0.9, 0.3};
  EXPECT_EQ(bootstrap_interval(values, 0.95, 7).low, bootstrap_interval(values, 0.95, 7).low);
  EXPECT_NE(bootstrap_interval(values, 0.95, 7).low, bootstrap_interval(values, 0.95, 8).low);
}

TEST(QuantileInterval, says_how_many_values_a_tail_needs) {
  EXPECT_EQ(samples_for_quantile(0.5, 0.95), 6);
  EXPECT_EQ(samples_for_quantile(0.99, 0.95), 368);
  std::vector<double> values(367, 1.0);
  EXPECT_FALSE(quantile_interval(values, 0.99, 0.95).bounded());
  values.push_back(1.0);
  EXPECT_TRUE(quantile_interval(values, 0.99, 0.95).bounded());
}

TEST(Bonferroni, asks_more_of_each_of_several) {
  EXPECT_DOUBLE_EQ(bonferroni(0.95, 1), 0.95);
  EXPECT_DOUBLE_EQ(bonferroni(0.95, 5), 0.99);
}

TEST(Detectable, shrinks_with_pairs_and_names_how_many_an_effect_needs) {
  EXPECT_GT(detectable(0.02, 8, 0.95, Looks::always), detectable(0.02, 8, 0.95, Looks::once));
  const size_t pairs = pairs_for(0.03, 0.02, 0.95, Looks::always, 100);
  EXPECT_LE(detectable(0.02, pairs, 0.95, Looks::always), 0.03);
  EXPECT_GT(detectable(0.02, pairs - 1, 0.95, Looks::always), 0.03);
  EXPECT_EQ(pairs_for(0.0001, 0.02, 0.95, Looks::always, 100), 0);
}

TEST(WarmUp, is_cut_where_the_series_settles) {
  RandomDraws draws(3);
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back((i < 20 ? 5.0 : 1.0) + 0.1 * draws.normal());
  EXPECT_THAT(warm_up_of(values), testing::AllOf(testing::Ge(20), testing::Le(30)));
}

TEST(WarmUp, is_short_where_there_is_none_and_never_more_than_half) {
  RandomDraws draws(3);
  std::vector<double> level, rising;
  for (int i = 0; i < 100; ++i) {
    level.push_back(1 + 0.1 * draws.normal());
    rising.push_back(i);
  }
  EXPECT_LE(warm_up_of(level), 30);
  EXPECT_LE(warm_up_of(rising), 50);
  EXPECT_EQ(warm_up_of(std::span<const double>(level).first(9)), 0);
}

TEST(Saturation, is_a_wait_that_grows_with_every_arrival) {
  RandomDraws draws(9);
  std::vector<double> growing, level;
  for (int i = 0; i < 40; ++i) {
    growing.push_back(10 + 5 * i + 10 * draws.uniform());
    level.push_back(10 + 10 * draws.uniform());
  }
  EXPECT_TRUE(is_saturated(growing));
  EXPECT_FALSE(is_saturated(level));
}

}  // namespace
}  // namespace tenon
