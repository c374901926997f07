// Quantiles of many values in bounded memory, held against the exact ones.
#include "core/report/statistics/quantile_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tenon {
namespace {

std::vector<double> values_of(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> drawn(2, 1.5);
  std::vector<double> out(count);
  for (double& value : out) value = drawn(random);
  return out;
}

TEST(QuantileSketch, few_values_are_exact) {
  const std::vector<double> values = values_of(1, 1000);
  QuantileSketch sketch(1000);
  for (const double value : values) sketch.add(value);
  const Quantiles exact = quantiles_of(values), found = sketch.quantiles();
  EXPECT_EQ(found.p50, exact.p50);
  EXPECT_EQ(found.p99, exact.p99);
  EXPECT_EQ(found.mean, exact.mean);
  EXPECT_EQ(found.count, 1000u);
}

TEST(QuantileSketch, many_values_are_within_two_thousandths) {
  for (const uint64_t seed : {1, 2, 3}) {
    const std::vector<double> values = values_of(seed, 50'000);
    QuantileSketch sketch(100), first(100), rest(100);
    for (size_t i = 0; i < values.size(); ++i) {
      sketch.add(values[i]);
      (i < 20'000 ? first : rest).add(values[i]);
    }
    first.add(rest);
    const Quantiles exact = quantiles_of(values);
    for (const QuantileSketch* each : {&sketch, &first}) {
      const Quantiles found = each->quantiles();
      EXPECT_NEAR(found.p50 / exact.p50, 1, 0.004);
      EXPECT_NEAR(found.p90 / exact.p90, 1, 0.004);
      EXPECT_NEAR(found.p99 / exact.p99, 1, 0.01);  // ranks differ by up to one as well
      EXPECT_NEAR(found.mean / exact.mean, 1, 1e-9);
      EXPECT_EQ(found.most, exact.most);
      EXPECT_EQ(found.count, 50'000u);
    }
  }
}

TEST(QuantileSketch, nothing_and_zeros_are_no_trouble) {
  EXPECT_EQ(QuantileSketch().quantiles().count, 0u);
  QuantileSketch zeros(2);
  for (int i = 0; i < 10; ++i) zeros.add(0);
  EXPECT_EQ(zeros.quantiles().most, 0);
  EXPECT_NEAR(zeros.quantiles().p50, 0, 1e-8);
}

}  // namespace
}  // namespace tenon
