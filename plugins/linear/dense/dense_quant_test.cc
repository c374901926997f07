#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>

#include "tests/support/linear/published_products.h"
#include "tests/support/linear/quant_kernel_battery.h"

namespace tenon {
namespace {

INSTANTIATE_TEST_SUITE_P(Isa, QuantKernel, quant_kernel_cases("dense", 1e-5), quant_kernel_name);

std::vector<QuantKernelCase> cases_of_pairs() {
  if (!detect_cpu_features().has_all(kCpuAvx512Bf16)) return {};
  return {{"dense", 3e-3, kCpuAvx512Bf16, true}};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QuantKernel);
INSTANTIATE_TEST_SUITE_P(Pairs, QuantKernel, testing::ValuesIn(cases_of_pairs()),
                         quant_kernel_name);

// Products of `rows` rows are those of the weight's values as f32, in rising k, bit for bit.
void expect_products_in_rising_k(LinearRig& rig, CpuFeatures isa, QuantWeight& weight,
                                 uint32_t rows) {
  const std::vector<float> w = weight.values();
  const std::vector<float> x = random_values(5, rows * weight.k_in);
  const auto y = rig.multiply(weight.view(), x, rows);
  for (uint32_t i = 0; i < rows * weight.n_out; ++i) {
    const float* xs = &x[i / weight.n_out * weight.k_in];
    const float* ws = &w[i % weight.n_out * weight.k_in];
    float sum = 0;
    for (uint32_t k = 0; k < weight.k_in; ++k) {
      const volatile float product = ws[k] * xs[k];
      sum = isa == kCpuPortable ? sum + product : std::fma(ws[k], xs[k], sum);
    }
    ASSERT_EQ(y[i], sum) << weight.format << " rows " << rows << " element " << i;
  }
}

// The same of pairs, with x as bf16, but for what sums in f32 lose of the size of their products.
void expect_products_of_rounded_x(LinearRig& rig, QuantWeight& weight, uint32_t rows) {
  const std::vector<float> w = weight.values();
  const std::vector<float> x = random_values(5, rows * weight.k_in);
  const auto y = rig.multiply(weight.view(), x, rows);
  for (uint32_t i = 0; i < rows * weight.n_out; ++i) {
    double sum = 0, size = 0;
    for (uint32_t k = 0; k < weight.k_in; ++k) {
      const float rounded =
          sdk::bf16_to_float(sdk::float_to_bf16(x[i / weight.n_out * weight.k_in + k]));
      const double product = double{w[i % weight.n_out * weight.k_in + k]} * rounded;
      sum += product;
      size += std::fabs(product);
    }
    ASSERT_NEAR(y[i], sum, 1e-5 * size) << weight.format << " rows " << rows << " element " << i;
  }
}

TEST_P(QuantKernel, products_are_added_one_by_one_in_rising_k_as_if_the_weights_were_f32) {
  if (GetParam().pairs) GTEST_SKIP() << "products of pairs are added two by two";
  constexpr uint32_t kOut = 133;  // four panels and some more in every set
  for (std::string_view format : quant_formats_of("dense")) {
    QuantWeight weight(format, kOut, whole_blocks(format, 288), 3);
    for (uint32_t rows : {1u, 3u, 12u, 40u}) {
      expect_products_in_rising_k(rig_, GetParam().isa, weight, rows);
    }
  }
}

TEST_P(QuantKernel, scales_of_float8_may_have_any_size) {
  constexpr float kScales[] = {1e-38f, 0.5f, 1.99f, -2, 300, 1e20f, 1e34f};
  for (std::string_view format : {"f8_32", "f8_128"}) {
    QuantWeight weight(format, 133, 384, 3);
    for (uint32_t row = 0; row < weight.n_out; row += 5) {
      for (uint32_t block = row % 2; block < weight.block_count(); block += 2) {
        std::memcpy(weight.block(row, block), &kScales[(row + block) % std::size(kScales)], 4);
      }
    }
    for (uint32_t rows : {1u, 3u, 12u, 40u}) {
      if (GetParam().pairs) {
        expect_products_of_rounded_x(rig_, weight, rows);
      } else {
        expect_products_in_rising_k(rig_, GetParam().isa, weight, rows);
      }
    }
  }
}

// A row of x with a single 1 gives a column of the weight, which no product of pairs may round.
TEST_P(QuantKernel, every_number_of_float8_is_multiplied_as_it_is) {
  constexpr uint32_t kIn = 128;
  for (std::string_view format : {"f8_32", "f8_128"}) {
    QuantWeight weight(format, 256, kIn, 3);
    const uint32_t values = kIn / weight.block_count();
    for (uint32_t n = 0; n < 256; ++n) {
      for (uint32_t k = 0; k < kIn; ++k) {
        // Beside a number stands another one.
        weight.block(n, k / values)[4 + k % values] = static_cast<std::byte>(n ^ (k * 37));
      }
    }
    const std::vector<float> w = weight.values();
    std::vector<float> x(kIn * kIn);
    for (uint32_t k = 0; k < kIn; ++k) x[k * kIn + k] = 1;
    const auto all = rig_.multiply(weight.view(), x, kIn);
    for (uint32_t k = 0; k < kIn; ++k) {
      const std::vector<float> row(&x[k * kIn], &x[k * kIn] + kIn);
      const auto alone = rig_.multiply(weight.view(), row, 1);
      for (uint32_t n = 0; n < 256; ++n) {
        ASSERT_EQ(all[k * 256 + n], w[n * kIn + k]) << format << " row " << n << " column " << k;
        ASSERT_EQ(alone[n], w[n * kIn + k]) << format << " row " << n << " column " << k;
      }
    }
  }
}

TEST_P(QuantKernel, published_checkpoints_give_the_products_that_their_numbers_stand_for) {
  for (const PublishedCase& published : kPublishedCases) {
    const PublishedProducts golden(published.name);
    golden.for_each(
        [&](const Weight& weight, const std::vector<float>& x, const std::vector<double>& wanted) {
          ASSERT_TRUE(rig_.kernel().accepts(weight.view()).ok()) << published.name;
          EXPECT_LE(relative_rms(rig_.multiply(weight.view(), x, 1), wanted), 3e-3)
              << published.name << " " << weight.name;
        });
  }
}

}  // namespace
}  // namespace tenon
