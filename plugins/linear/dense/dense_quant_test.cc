#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/published_products.h"
#include "tests/support/quant_kernel_battery.h"

namespace tenon {
namespace {

INSTANTIATE_TEST_SUITE_P(Isa, QuantKernel, quant_kernel_cases("dense", 1e-5), quant_kernel_name);

TEST_P(QuantKernel, products_are_added_one_by_one_in_rising_k_as_if_the_weights_were_f32) {
  constexpr uint32_t kOut = 133;  // four panels and some more in every set
  for (std::string_view format : quant_formats_of("dense")) {
    const uint32_t k_in = whole_blocks(format, 288);
    QuantWeight weight(format, kOut, k_in, 3);
    const std::vector<float> w = weight.values();
    for (uint32_t rows : {1u, 3u, 12u, 40u}) {
      const std::vector<float> x = random_values(5, rows * k_in);
      const auto y = rig_.multiply(weight.view(), x, rows);
      for (uint32_t i = 0; i < rows * kOut; ++i) {
        const float* xs = &x[i / kOut * k_in];
        const float* ws = &w[i % kOut * k_in];
        float sum = 0;
        for (uint32_t k = 0; k < k_in; ++k) {
          const volatile float product = ws[k] * xs[k];
          sum = GetParam().isa == kCpuPortable ? sum + product : std::fma(ws[k], xs[k], sum);
        }
        ASSERT_EQ(y[i], sum) << format << " rows " << rows << " element " << i;
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
