#include "core/model/strange_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/model/formats/quant_format.h"

namespace tenon {
namespace {

constexpr std::string_view kFormats[] = {
    "q8_0",   "q4_0",  "q4_1",   "q5_0",   "q5_1",    "q6_k",   "q4_k",    "q5_k",
    "q2_k",   "q3_k",  "iq4_nl", "iq4_xs", "iq3_xxs", "iq3_s",  "iq2_xxs", "iq2_xs",
    "iq2_s",  "iq1_s", "iq1_m",  "tq1_0",  "tq2_0",   "nf4_32", "nf4_64",  "fp4_32",
    "fp4_64", "u2_32", "u3_64",  "u4_128", "u8_64",   "f8_32",  "f8_128"};

using Block = std::vector<std::byte>;

// A block of random bytes: of its f16 one in 32 is infinite or no number.
Block random_block(const QuantFormat& format, std::mt19937& random) {
  Block block(format.bytes);
  for (std::byte& byte : block) byte = static_cast<std::byte>(random());
  // Of FP8 only the scale may be strange here.
  if (format.name.starts_with("f8_")) std::fill(block.begin() + 4, block.end(), std::byte{0x38});
  return block;
}
bool has_finite_values(const QuantFormat& format, const Block& block) {
  std::vector<float> values(format.elements);
  format.dequantize(block.data(), values.data());
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}
Block block_of_kind(const QuantFormat& format, bool finite, std::mt19937& random) {
  for (;;) {
    Block block = random_block(format, random);
    if (has_finite_values(format, block) == finite) return block;
  }
}

TEST(StrangeValues, are_found_in_the_blocks_whose_values_are_no_finite_numbers) {
  for (std::string_view name : kFormats) {
    const QuantFormat& format = *find_quant_format(name);
    std::mt19937 random(7);
    uint32_t strange = 0;
    for (int i = 0; i < 3000; ++i) {
      const Block block = random_block(format, random);
      const bool finite = has_finite_values(format, block);
      strange += finite ? 0 : 1;
      ASSERT_EQ(is_finite_row(format, block.data(), format.elements), finite) << name;
    }
    EXPECT_GT(strange, name.starts_with("f8_") ? 1u : 20u) << name;
  }
}

TEST(StrangeValues, every_power_of_two_is_a_number) {
  const QuantFormat& format = *find_quant_format("mxfp4");
  const Block block(format.bytes, std::byte{0xff});
  EXPECT_TRUE(is_finite_row(format, block.data(), format.elements));
}

TEST(StrangeValues, of_a_matrix_are_found_in_the_share_that_has_them) {
  constexpr uint32_t kRows = 9, kBlocks = 3;
  for (std::string_view name : kFormats) {
    const QuantFormat& format = *find_quant_format(name);
    std::mt19937 random(7);
    for (uint32_t strange_row : {0u, 4u, 8u}) {
      Block bytes;
      for (uint32_t i = 0; i < kRows * kBlocks; ++i) {
        const Block block = block_of_kind(format, i != strange_row * kBlocks + 2, random);
        bytes.insert(bytes.end(), block.begin(), block.end());
      }
      TensorView part;
      part.data = bytes.data();
      part.dtype = DType::u8;
      part.rank = 2;
      part.shape[0] = kRows;
      part.shape[1] = part.stride[0] = uint64_t{kBlocks} * format.bytes;
      const Weight weight{.name = "w",
                          .format = std::string(name),
                          .n_out = kRows,
                          .k_in = kBlocks * format.elements,
                          .parts = {part}};
      EXPECT_FALSE(is_finite(weight, {}));
      for (uint32_t i = 0; i < kRows; ++i) {
        EXPECT_EQ(is_finite(weight, {i, kRows}), i != strange_row) << name;
      }
    }
  }
}

TEST(StrangeValues, of_plain_types_are_found) {
  float values[] = {1, -INFINITY, 0, 4, 5, 6};
  TensorView part;
  part.data = values;
  part.dtype = DType::f32;
  part.rank = 2;
  part.shape[0] = 3;
  part.shape[1] = part.stride[0] = 2;
  part.stride[1] = 1;
  const Weight weight{.name = "w", .format = "f32", .n_out = 3, .k_in = 2, .parts = {part}};
  EXPECT_FALSE(is_finite(weight, {0, 3}));
  EXPECT_TRUE(is_finite(weight, {1, 3}));
  EXPECT_TRUE(is_finite(weight, {2, 3}));
}

}  // namespace
}  // namespace tenon
