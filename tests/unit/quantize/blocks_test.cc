// Blocks of GGUF files: what is encoded is decoded by core/model, and searched scales lose less.
#include "core/quantize/blocks/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "core/model/formats/quant_format.h"
#include "core/quantize/blocks/block_fit.h"

namespace tenon::quantize {
namespace {

constexpr size_t kValues = 2048;

std::vector<float> random_row(uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal(0.002f, 0.03f);
  std::vector<float> values(kValues);
  for (float& value : values) value = normal(bits);
  values[100] = 0.2f;
  return values;
}

std::vector<float> decoded(std::string_view name, const std::vector<float>& values,
                           std::span<const float> importance = {}) {
  const QuantFormat& format = *find_quant_format(name);
  std::vector<std::byte> blocks(format.row_bytes(kValues));
  encode_row(name, values, importance, blocks.data());
  std::vector<float> out(kValues);
  dequantize_row(format, blocks.data(), kValues, out.data());
  return out;
}

double error_of(const std::vector<float>& a, const std::vector<float>& b,
                const std::vector<float>& importance) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += importance[i] * (a[i] - b[i]) * (a[i] - b[i]);
    size += importance[i] * a[i] * a[i];
  }
  return std::sqrt(sum / size);
}

TEST(Blocks, are_read_back_with_the_error_that_their_bits_allow) {
  const std::pair<std::string_view, double> most[] = {
      {"q8_0", 0.008},  {"q6_k", 0.025}, {"q5_k", 0.04}, {"q5_1", 0.04},   {"q5_0", 0.045},
      {"q4_k", 0.08},   {"q4_1", 0.08},  {"q4_0", 0.09}, {"iq4_xs", 0.08}, {"mxfp4", 0.14},
      {"iq4_nl", 0.08}, {"q3_k", 0.19},  {"q2_k", 0.32}};
  const std::vector<float> values = random_row(1), alike(kValues, 1.0f);
  for (const auto& [name, error] : most) {
    ASSERT_NE(find_block_encoder(name), nullptr) << name;
    const double found = error_of(values, decoded(name, values), alike);
    EXPECT_LT(found, error) << name;
    EXPECT_GT(found, error / 3) << name;
  }
  EXPECT_EQ(find_block_encoder("u4_64"), nullptr);
}

TEST(Blocks, lose_less_where_it_matters) {
  const std::vector<float> values = random_row(2), alike(kValues, 1.0f);
  std::vector<float> importance(kValues, 0.05f);
  for (size_t i = 0; i < kValues; i += 5) importance[i] = 4.0f;
  for (const std::string_view name :
       {"q2_k", "q3_k", "q4_0", "q4_1", "q5_0", "iq4_nl", "iq4_xs", "q4_k", "q5_k", "q6_k"}) {
    EXPECT_LT(error_of(values, decoded(name, values, importance), importance),
              error_of(values, decoded(name, values), importance))
        << name;
  }
}

TEST(Blocks, lose_less_than_plain_rounding) {
  const std::vector<float> values = random_row(3), alike(kValues, 1.0f);
  const QuantFormat& format = *find_quant_format("q4_0");
  std::vector<std::byte> blocks(format.row_bytes(kValues));
  quantize_row(format, values.data(), kValues, blocks.data());
  std::vector<float> plain(kValues);
  dequantize_row(format, blocks.data(), kValues, plain.data());
  EXPECT_LT(error_of(values, decoded("q4_0", values), alike), error_of(values, plain, alike));
}

TEST(Blocks, take_zeros_and_values_of_one_sign) {
  for (const std::string_view name : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "iq4_xs",
                                      "mxfp4", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"}) {
    EXPECT_THAT(decoded(name, std::vector<float>(kValues)), testing::Each(0.0f)) << name;
    std::vector<float> positive = random_row(4);
    for (float& value : positive) value = 0.5f + std::fabs(value);
    const std::vector<float> alike(kValues, 1.0f);
    EXPECT_LT(error_of(positive, decoded(name, positive), alike), 0.14) << name;
  }
}

// Halves, ends, a scale of 0, signs, and counts that are no multiple of what goes at once.
TEST(QuantizeBlocks, many_codes_are_those_of_one_by_one) {
  std::vector<float> values;
  for (int i = -40; i <= 40; ++i) values.push_back(0.5f * static_cast<float>(i));
  for (int i = -40; i <= 40; ++i)
    values.push_back(std::nextafter(0.5f * static_cast<float>(i), 9.0f));
  for (const float large : {1e30f, -1e30f, 1e-40f, -0.0f, 0.49999997f}) values.push_back(large);
  for (const float scale : {1.0f, -1.0f, 0.3f, 1e-30f, 0.0f}) {
    for (const float shift : {0.0f, 2.25f}) {
      for (const auto& [low, high] : {std::pair(0, 15), std::pair(-32, 31), std::pair(1, 3)}) {
        std::vector<int> codes(values.size());
        codes_of(values, shift, scale, low, high, codes);
        for (size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(codes[i], code_of(values[i] + shift, scale, low, high))
              << values[i] << ", scale " << scale << ", shift " << shift;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenon::quantize
