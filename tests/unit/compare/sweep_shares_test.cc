// The time of a sweep: who may use how much of it, and what is left out where it is too little.
#include "core/compare/sweep_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::compare {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

SweepRange concurrencies(std::vector<double> values) {
  return {SweepOf::concurrency, std::move(values)};
}

TEST(SweepShares, each_load_has_its_share_of_what_is_left) {
  SweepShares shares(concurrencies({1, 2, 4, 8}), 100 * kSecond);
  const auto first = shares.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->load, 1);
  EXPECT_EQ(first->share_ns, 25 * kSecond);
  EXPECT_EQ(first->budget_ns, 50 * kSecond) << "until there are five pairs";
  shares.took(10 * kSecond, kSecond / 2, 16);
  EXPECT_EQ(shares.next()->share_ns, 30 * kSecond) << "what was not needed is for the others";
  shares.took(30 * kSecond, kSecond / 2, 60);
  shares.took(30 * kSecond, kSecond / 2, 60);
  EXPECT_EQ(shares.next()->load, 8);
  EXPECT_EQ(shares.next()->share_ns, 30 * kSecond);
  EXPECT_EQ(shares.next()->budget_ns, 30 * kSecond);
  shares.took(30 * kSecond, kSecond / 2, 60);
  EXPECT_FALSE(shares.next());
  EXPECT_THAT(shares.left_out(), IsEmpty());
}

// Six seconds for a pair: 38 s for five of them and what comes before.
TEST(SweepShares, where_pairs_take_too_long_fewer_loads_are_measured) {
  SweepShares shares(concurrencies({1, 2, 4, 8, 16, 32}), 120 * kSecond);
  shares.took(38 * kSecond, 6 * kSecond, 5);
  EXPECT_THAT(shares.left_out(), ElementsAre(2, 8, 16)) << "82 s are left: two loads";
  EXPECT_EQ(shares.needed_ns(), 6 * 38 * kSecond);
  EXPECT_EQ(shares.next()->load, 4);
  EXPECT_EQ(shares.next()->share_ns, 41 * kSecond);
  shares.took(41 * kSecond, 6 * kSecond, 5);
  EXPECT_EQ(shares.next()->load, 32) << "the last one always";
}

TEST(SweepShares, nothing_is_begun_that_has_no_time_for_its_pairs) {
  SweepShares shares(concurrencies({1, 2, 4}), 60 * kSecond);
  shares.took(30 * kSecond, 0, 0);
  EXPECT_FALSE(shares.next());
  EXPECT_THAT(shares.left_out(), ElementsAre(2, 4));
  EXPECT_GE(shares.needed_ns(), 3 * 5 * 30 * kSecond);
}

// 32 requests at one a second take half a minute, at eight a second four seconds.
TEST(SweepShares, random_arrivals_take_less_time_at_higher_rates) {
  SweepShares shares({SweepOf::rate, {1, 2, 4, 8}}, 700 * kSecond);
  shares.took(320 * kSecond, 64 * kSecond, 5);
  EXPECT_THAT(shares.left_out(), IsEmpty()) << "160, 80 and 40 s for five pairs";
  SweepShares fewer({SweepOf::rate, {1, 2, 4, 8}}, 600 * kSecond);
  fewer.took(320 * kSecond, 64 * kSecond, 5);
  EXPECT_THAT(fewer.left_out(), IsEmpty());
  SweepShares fewest({SweepOf::rate, {1, 2, 4, 8}}, 500 * kSecond);
  fewest.took(320 * kSecond, 64 * kSecond, 5);
  EXPECT_THAT(fewest.left_out(), ElementsAre(2, 4))
      << "180 s are left, and two of them spread evenly take 200";
}

}  // namespace
}  // namespace tenon::compare
