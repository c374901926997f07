#include "core/model/strange_values.h"

#include <gtest/gtest.h>

#include "tests/support/quant_weight.h"

namespace tenon {
namespace {

constexpr uint16_t kF16Infinity = 0x7c00, kF16Nan = 0xfe00;

Weight weight_of(const QuantWeight& blocks) {
  return {.name = "w",
          .format = blocks.format,
          .n_out = blocks.n_out,
          .k_in = blocks.k_in,
          .parts = {blocks.tensor}};
}
// Of four shares of the rows, a bit for each that holds what is no finite number.
uint32_t strange_shares(const QuantWeight& blocks) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 4; ++i) bits |= is_finite(weight_of(blocks), {i, 4}) ? 0u : 1u << i;
  return bits;
}

TEST(StrangeValues, of_blocks_are_found_in_the_share_that_has_them) {
  for (std::string_view format : kAllQuantFormats) {
    for (uint16_t half : {kF16Infinity, kF16Nan}) {
      QuantWeight blocks(format, 9, whole_blocks(format, 600), 3, 1);
      EXPECT_EQ(strange_shares(blocks), 0u) << format;
      if (blocks.has_power_scale()) continue;  // every byte is a finite power
      blocks.set_scale(7, blocks.block_count() - 1, half);
      EXPECT_EQ(strange_shares(blocks), 0b1000u) << format;
      blocks.set_scale(0, 0, half);
      EXPECT_EQ(strange_shares(blocks), 0b1001u) << format;
    }
  }
}

TEST(StrangeValues, of_minima_are_found) {
  for (std::string_view format : {"q4_1", "q5_1", "q4_k", "q5_k", "q2_k"}) {
    QuantWeight blocks(format, 8, whole_blocks(format, 600), 3);
    blocks.set_minimum(2, 1, kF16Nan);
    EXPECT_EQ(strange_shares(blocks), 0b0010u) << format;
  }
}

}  // namespace
}  // namespace tenon
