#include "core/base/statistics.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Statistics, a_quantile_lies_between_its_neighbours_in_order) {
  const std::vector<double> values = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(quantile(values, 0.0), 10);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0), 40);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 25);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 37);
}

TEST(Statistics, the_median_of_an_odd_number_is_one_of_them) {
  EXPECT_DOUBLE_EQ(median({5, 1, 9}), 5);
}

TEST(Statistics, nothing_has_the_quantile_zero) {
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.99), 7);
}

}  // namespace
}  // namespace tenon
