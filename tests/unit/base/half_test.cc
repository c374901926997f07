#include "core/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon {
namespace {

// binary16 by its definition.
double f16_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const int fraction = static_cast<int>(bits & 1023);
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Half, every_f16_is_widened_exactly_and_comes_back) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_f16(static_cast<uint16_t>(bits));
    const double expected = f16_value(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(float_from_f16(f16_from_float(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    ASSERT_EQ(f16_from_float(value), bits);
  }
}

TEST(Half, floats_between_two_f16_go_to_the_nearer_and_ties_to_even) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = f16_value(bits), high = f16_value(bits + 1), middle = (low + high) / 2;
    const auto round = [](double value) { return f16_from_float(static_cast<float>(value)); };
    ASSERT_EQ(round(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(round(std::nextafter(static_cast<float>(middle), 0.0f)), bits) << bits;
    ASSERT_EQ(round(std::nextafter(static_cast<float>(middle), 1e9f)), bits + 1) << bits;
  }
}

TEST(Half, floats_too_large_for_f16_become_infinite) {
  EXPECT_EQ(f16_from_float(65519.0f), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_float(-1e30f), 0xfc00);
  EXPECT_EQ(f16_from_float(-HUGE_VALF), 0xfc00);
}

TEST(Half, every_bf16_comes_back) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_bf16(static_cast<uint16_t>(bits));
    const uint16_t back = bf16_from_float(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(float_from_bf16(back))) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(Half, floats_between_two_bf16_go_to_the_nearer_and_ties_to_even) {
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const uint32_t middle = bits << 16 | 0x8000;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(middle)), bits + (bits & 1)) << bits;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(middle - 1)), bits) << bits;
    ASSERT_EQ(bf16_from_float(std::bit_cast<float>(middle + 1)), bits + 1) << bits;
  }
}

}  // namespace
}  // namespace tenon
