#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/quant_kernel_battery.h"

namespace tenon {
namespace {

INSTANTIATE_TEST_SUITE_P(Isa, QuantKernel, quant_kernel_cases("dense", 1e-5), quant_kernel_name);

TEST_P(QuantKernel, products_are_added_one_by_one_in_rising_k_as_if_the_weights_were_f32) {
  constexpr uint32_t kOut = 37;
  for (std::string_view format : kQuantFormats) {
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

}  // namespace
}  // namespace tenon
