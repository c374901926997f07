#include "core/exec/cpu/products/adapter_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(AdapterRows, are_sorted_by_adapter_and_rise_within_one) {
  AdapterRows rows;
  rows.reserve(8, 3);
  rows.sort(std::vector<uint32_t>{3, 0, 1, 3, 1, 0, 3});
  EXPECT_THAT(rows.without(), ElementsAre(1, 5));
  ASSERT_EQ(rows.adapters().size(), 2u);
  EXPECT_EQ(rows.adapters()[0].adapter, 0u);
  EXPECT_THAT(rows.adapters()[0].rows, ElementsAre(2, 4));
  EXPECT_EQ(rows.adapters()[1].adapter, 2u);
  EXPECT_THAT(rows.adapters()[1].rows, ElementsAre(0, 3, 6));
}

TEST(AdapterRows, of_a_later_step_know_nothing_of_an_earlier_one) {
  AdapterRows rows;
  rows.reserve(4, 2);
  rows.sort(std::vector<uint32_t>{1, 2, 1, 0});
  rows.sort(std::vector<uint32_t>{0, 0});
  EXPECT_THAT(rows.without(), ElementsAre(0, 1));
  EXPECT_THAT(rows.adapters(), IsEmpty());
  rows.sort({});
  EXPECT_THAT(rows.without(), IsEmpty());
}

}  // namespace
}  // namespace tenon
