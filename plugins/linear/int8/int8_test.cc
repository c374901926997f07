#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/support/linear/published_products.h"
#include "tests/support/linear/quant_kernel_battery.h"

namespace tenon {
namespace {

INSTANTIATE_TEST_SUITE_P(Isa, QuantKernel, quant_kernel_cases("int8", 1e-2), quant_kernel_name);

// x as the kernel multiplies with it, by its definition: groups of 32, whole multiples of a 127th
// of the largest magnitude.
std::vector<float> quantised(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  for (size_t first = 0; first < x.size(); first += 32) {
    float largest = 0;
    for (size_t i = first; i < first + 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (size_t i = first; i < first + 32; ++i) {
      out[i] = std::nearbyint(x[i] * (127.0f / largest)) * (largest / 127.0f);
    }
  }
  return out;
}

TEST_P(QuantKernel, beyond_the_rounding_of_x_products_are_as_exact_as_f32) {
  constexpr uint32_t kOut = 50, kRows = 9;
  for (std::string_view format : exact_formats_of("int8")) {
    const uint32_t k_in = whole_blocks(format, 1056);
    QuantWeight weight(format, kOut, k_in, 7);
    const std::vector<float> x = heavy_tailed(11, kRows * k_in);
    const auto want = reference_product(weight.values(), kOut, quantised(x), kRows, k_in);
    EXPECT_LE(relative_rms(rig_.multiply(weight.view(), x, kRows), want), 1e-6) << format;
  }
}

TEST(Int8, sets_with_fused_multiplication_give_the_same_bits) {
  if (!detect_cpu_features().has(CpuFeature::avx512_vnni)) GTEST_SKIP() << "no VNNI here";
  constexpr uint32_t kOut = 50, kRows = 9;
  for (std::string_view format : exact_formats_of("int8")) {
    // Its bytes are signed in one set and not in the other, and so is what its zero adds.
    if (format.starts_with("u8_")) continue;
    const uint32_t k_in = whole_blocks(format, 1056);
    QuantWeight weight(format, kOut, k_in, 7);
    const std::vector<float> x = heavy_tailed(11, kRows * k_in);
    const auto narrow = LinearRig("int8", kCpuAvx2).multiply(weight.view(), x, kRows);
    const auto wide = LinearRig("int8", kCpuAvx512Vnni).multiply(weight.view(), x, kRows);
    EXPECT_TRUE(same_bits(narrow.data(), wide.data(), wide.size())) << format;
  }
}

// Sets that share the name of their numerics.
TEST(Int8, sets_of_one_name_give_the_same_bits) {
  constexpr uint32_t kOut = 50;
  std::map<std::string, std::vector<CpuFeatures>, std::less<>> sets;
  for (const CpuFeatures isa : runnable_isas()) {
    sets[std::string(LinearRig("int8", isa).kernel().numerics())].push_back(isa);
  }
  for (const auto& [numerics, isas] : sets) {
    for (std::string_view format : quant_formats_of("int8")) {
      const uint32_t k_in = whole_blocks(format, 1056);
      QuantWeight weight(format, kOut, k_in, 7);
      for (const uint32_t rows : {1u, 9u, 70u}) {
        const std::vector<float> x = heavy_tailed(11, rows * k_in);
        const auto first = LinearRig("int8", isas[0]).multiply(weight.view(), x, rows);
        for (size_t i = 1; i < isas.size(); ++i) {
          const auto other = LinearRig("int8", isas[i]).multiply(weight.view(), x, rows);
          EXPECT_TRUE(same_bits(first.data(), other.data(), other.size()))
              << numerics << " " << cpu_isa_name(isas[i]) << " " << format << " rows " << rows;
        }
      }
    }
  }
}

TEST(Int8, weights_of_other_formats_are_refused) {
  LinearRig rig("int8", kCpuPortable);
  QuantWeight weight("q8_0", 4, 64, 1);
  WeightView view = weight.view();
  view.format = "bf16";
  EXPECT_EQ(
      rig.kernel().accepts(view).message(),
      "weight \"w\" has format \"bf16\"; \"int8\" multiplies q8_0, q4_0, q4_1, q5_0, q5_1, q6_k, "
      "q4_k, q5_k, iq4_nl, mxfp4, nf4_32, nf4_64, fp4_32, fp4_64, u2_32, u2_64, u2_128, u3_32, "
      "u3_64, u3_128, u4_32, u4_64, u4_128, u8_32, u8_64, u8_128, nvfp4_64, q2_k, q3_k, iq4_xs, "
      "tq1_0, tq2_0, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq1_s and iq1_m; choose a linear "
      "plugin for that format, or \"auto\"");
  EXPECT_EQ(rig.kernel().packed_bytes(view), 0u);
}

TEST(Int8, the_name_of_the_numerics_follows_the_processor) {
  EXPECT_EQ(LinearRig("int8", kCpuPortable).kernel().numerics(), "int8.2/portable");
  for (const CpuFeatures isa : {kCpuNeon, kCpuNeonDotprod, kCpuNeonI8mm}) {
    if (!detect_cpu_features().has_all(isa)) continue;
    EXPECT_EQ(LinearRig("int8", isa).kernel().numerics(), "int8.2/neon");
  }
  if (detect_cpu_features().has_all(kCpuAvxVnni)) {
    EXPECT_EQ(LinearRig("int8", kCpuAvxVnni).kernel().numerics(), "int8.2/avx2");
  }
  if (!detect_cpu_features().has(CpuFeature::avx512_vnni)) return;
  EXPECT_EQ(LinearRig("int8", kCpuAvx2).kernel().numerics(), "int8.2/avx2");
  EXPECT_EQ(LinearRig("int8", kCpuAvx512).kernel().numerics(), "int8.2/avx2");
  EXPECT_EQ(LinearRig("int8", kCpuAvx512Bf16).kernel().numerics(), "int8.2/avx512_vnni");
}

TEST_P(QuantKernel, published_checkpoints_give_the_products_that_their_numbers_stand_for) {
  for (const PublishedCase& published : kPublishedCases) {
    const PublishedProducts golden(published.name);
    // Of the layer as a whole: a matrix of one group has too few numbers for a mean.
    std::vector<float> got;
    std::vector<double> all_wanted;
    golden.for_each(
        [&](const Weight& weight, const std::vector<float>& x, const std::vector<double>& wanted) {
          if (weight.format == "f32" || weight.format == "bf16") return;  // a router; attention
          if (weight.format.starts_with("f8_")) {
            EXPECT_FALSE(rig_.kernel().accepts(weight.view()).ok());
            return;
          }
          ASSERT_TRUE(rig_.kernel().accepts(weight.view()).ok()) << published.name;
          const std::vector<float> y = rig_.multiply(weight.view(), x, 1);
          got.insert(got.end(), y.begin(), y.end());
          all_wanted.insert(all_wanted.end(), wanted.begin(), wanted.end());
        });
    if (got.empty()) continue;
    // FP4's smallest level, 1/192, is no whole number of bytes beside the others.
    const double bound = std::string_view(published.name).ends_with("bnb_fp4") ? 1.1e-2 : 1e-2;
    EXPECT_LE(relative_rms(got, all_wanted), bound) << published.name;
  }
}

}  // namespace
}  // namespace tenon
