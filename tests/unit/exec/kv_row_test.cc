#include "core/exec/kv_row.h"

#include <gtest/gtest.h>
#include <tenon/attention.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tenon {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

std::vector<std::byte> stored(DType dtype, const std::vector<float>& row) {
  const uint64_t bytes = kv_row_bytes(dtype, static_cast<uint32_t>(row.size()));
  std::vector<std::byte> to(bytes + 1, std::byte{0xa5});
  write_kv_row(dtype, row, to.data());
  EXPECT_EQ(to.back(), std::byte{0xa5}) << "wrote behind the row";
  to.pop_back();
  return to;
}
std::vector<float> there_and_back(DType dtype, const std::vector<float>& row) {
  std::vector<float> back(row.size());
  read_kv_row(dtype, stored(dtype, row).data(), back);
  return back;
}

class QuantisedRow : public testing::TestWithParam<DType> {
 protected:
  double steps() const { return GetParam() == DType::i8 ? 127 : 15; }
};
INSTANTIATE_TEST_SUITE_P(Types, QuantisedRow, testing::Values(DType::i8, DType::i4),
                         [](const auto& given) { return std::string(dtype_name(given.param)); });

TEST_P(QuantisedRow, comes_back_within_half_a_step) {
  std::mt19937 random(1);
  for (const uint32_t dim : {1u, 2u, 3u, 37u, 64u, 255u, 256u}) {
    for (const float size : {1e-30f, 1e-3f, 1.0f, 1e4f, 1e30f}) {
      std::normal_distribution<float> values(0.3f * size, size);
      std::vector<float> row(dim);
      for (float& x : row) x = values(random);
      const auto [lowest, highest] = std::minmax_element(row.begin(), row.end());
      const double largest = std::max(std::fabs(*lowest), std::fabs(*highest));
      // bf16 rounds the scale by 2^-9, the least value down by 2^-8 of itself.
      const double range = GetParam() == DType::i8 ? largest : *highest - *lowest + largest / 128;
      const double bound = range / steps() * 0.5 * 1.01 + range / 512;
      const std::vector<float> back = there_and_back(GetParam(), row);
      for (uint32_t d = 0; d < dim; ++d) {
        EXPECT_LE(std::fabs(double{back[d]} - row[d]), bound) << d << " of " << dim;
      }
    }
  }
}

TEST_P(QuantisedRow, of_zeros_comes_back_as_zeros) {
  for (const float x : there_and_back(GetParam(), std::vector<float>(64, 0.0f))) EXPECT_EQ(x, 0.0f);
}

TEST_P(QuantisedRow, of_one_value_comes_back_nearly_as_that) {
  for (const float value : {3.3f, -3.3f, 1e-20f}) {
    const std::vector<float> row(9, value);
    for (const float x : there_and_back(GetParam(), row))
      EXPECT_NEAR(x, value, 0.006 * std::fabs(value));
  }
}

TEST_P(QuantisedRow, with_anything_not_finite_comes_back_as_nan) {
  for (const float bad : {NAN, kInfinity, -kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{7}, size_t{63}}) {
      std::vector<float> row(64, 1.0f);
      row[at] = bad;
      for (const float x : there_and_back(GetParam(), row)) EXPECT_TRUE(std::isnan(x));
    }
  }
}

TEST_P(QuantisedRow, of_the_largest_numbers_is_finite_or_nan_throughout) {
  const std::vector<float> back = there_and_back(GetParam(), {kLargest, -kLargest, 0, 1});
  if (GetParam() == DType::i8) {
    EXPECT_NEAR(back[0] / kLargest, 1, 0.01);
    EXPECT_NEAR(back[1] / kLargest, -1, 0.01);
  } else {
    for (const float x : back) EXPECT_TRUE(std::isnan(x));  // the range overflows
  }
}

TEST_P(QuantisedRow, of_subnormal_numbers_stays_below_them) {
  const std::vector<float> back = there_and_back(GetParam(), {1e-44f, -1e-44f, 0});
  for (const float x : back) EXPECT_LE(std::fabs(x), 1e-40f);
}

TEST(KvRow, of_i8_is_its_bytes_and_a_bf16_scale) {
  // The largest is 127 · 2: the scale is 2, which bf16 holds.
  const std::vector<std::byte> bytes = stored(DType::i8, {254, -254, 3, 0, -1});
  const int8_t elements[] = {127, -127, 2, 0, 0};  // 1.5 and -0.5 go to the even neighbour
  EXPECT_EQ(std::memcmp(bytes.data(), elements, 5), 0);
  EXPECT_EQ(bytes[5], std::byte{0});  // padding
  const uint16_t two = 0x4000;
  EXPECT_EQ(std::memcmp(bytes.data() + 6, &two, 2), 0);
}

TEST(KvRow, of_i4_is_its_nibbles_a_scale_and_the_least_value) {
  const std::vector<std::byte> bytes = stored(DType::i4, {-2, 5.5f, 0, 0.5f, 1});
  // From -2 in steps of 0.5.
  const uint8_t elements[] = {0xf0, 0x54, 0x06, 0x00};
  EXPECT_EQ(std::memcmp(bytes.data(), elements, 4), 0);
  const uint16_t half = 0x3f00;
  const uint16_t minus_two = 0xc000;
  EXPECT_EQ(std::memcmp(bytes.data() + 4, &half, 2), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 6, &minus_two, 2), 0);
}

TEST(KvRow, of_floating_point_is_rounded_to_the_nearest) {
  const std::vector<float> row{1.0f, 1.0f + 0x1p-9f, -3.14159f};
  EXPECT_EQ(there_and_back(DType::f32, row), row);
  EXPECT_EQ(there_and_back(DType::bf16, row), (std::vector<float>{1.0f, 1.0f, -3.140625f}));
  EXPECT_EQ(there_and_back(DType::f16, row), (std::vector<float>{1.0f, 1.001953125f, -3.140625f}));
}

}  // namespace
}  // namespace tenon
