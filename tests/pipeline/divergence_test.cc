#include "core/evaluate/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tenon {
namespace {

PredictionDifference of(const std::vector<float>& base, const std::vector<float>& other,
                        int32_t next) {
  const auto found = difference_of(base, other, next);
  EXPECT_TRUE(found.ok());
  return found.ok() ? *found : PredictionDifference();
}

TEST(Divergence, is_none_between_logits_that_differ_by_a_constant) {
  const PredictionDifference same = of({1, 2, 3}, {11, 12, 13}, 2);
  EXPECT_NEAR(same.kl_nats, 0, 1e-12);
  EXPECT_TRUE(same.same_top);
  EXPECT_NEAR(same.base_nats, same.nats, 1e-12);
}

TEST(Divergence, is_that_of_two_distributions) {
  // p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4)
  const float half = std::log(0.5f), quarter = std::log(0.25f);
  const PredictionDifference found = of({half, quarter, quarter}, {quarter, half, quarter}, 1);
  EXPECT_NEAR(found.kl_nats, 0.25 * std::log(2.0), 1e-6);
  EXPECT_FALSE(found.same_top);
  EXPECT_NEAR(found.base_nats, std::log(4.0), 1e-6);
  EXPECT_NEAR(found.nats, std::log(2.0), 1e-6);
}

TEST(Divergence, refuses_logits_that_predict_nothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(difference_of(std::vector<float>{1, 2}, std::vector<float>{1, nan}, 0).ok());
}

TEST(Divergence, keeps_the_means_of_windows) {
  TextDifference text;
  text.add_window(std::vector<PredictionDifference>{{.kl_nats = 0.1, .nats = 1},
                                                    {.kl_nats = 0.3, .same_top = false}});
  text.add_window({});
  text.add_window(std::vector<PredictionDifference>{{.kl_nats = 0.5, .base_nats = 2}});
  EXPECT_EQ(text.tokens, 3);
  EXPECT_EQ(text.same_top, 2);
  EXPECT_THAT(text.window_kl_nats, testing::ElementsAre(testing::DoubleEq(0.2), 0.5));
  EXPECT_THAT(text.window_nats_more, testing::ElementsAre(0.5, -2));
}

}  // namespace
}  // namespace tenon
