#include <gtest/gtest.h>
#include <tenon/linear.h>
#include <tenon/sdk/half.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/linear/linear_rig.h"
#include "tests/support/linear/plain_kernel_battery.h"
#include "tests/support/linear/plain_weight.h"

namespace tenon {
namespace {

using Weight = PlainWeight;

// A dense kernel.
struct Bench : LinearRig {
  explicit Bench(CpuFeatures isa, bool slow_bf16_dot = true)
      : LinearRig("dense", isa, slow_bf16_dot) {}
  PackedWeight pack(const Weight& weight, uint32_t slices = 1) {
    return LinearRig::pack(weight.view(), slices);
  }
  std::vector<float> multiply(const Weight& weight, const std::vector<float>& x, uint32_t rows,
                              uint32_t slices = 1) {
    return LinearRig::multiply(weight.view(), x, rows, slices);
  }
};

// Every way a kernel can multiply here: instruction sets, and bf16 with and without dot products.
std::vector<PlainKernelCase> variants() {
  std::vector<PlainKernelCase> all;
  for (CpuFeatures isa : runnable_isas()) {
    if (!adds_byte_products_alone(isa)) all.push_back({.id = "dense", .isa = isa});
  }
  for (CpuFeatures isa : {kCpuAvx512Bf16, kCpuNeonBf16}) {
    if (!detect_cpu_features().has_all(isa)) continue;
    all.push_back({.id = "dense", .isa = isa, .slow_bf16_dot = false, .bf16_tolerance = 3e-3});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Dense, PlainKernel, testing::ValuesIn(variants()), plain_kernel_name);

class DenseOnEveryIsa : public testing::TestWithParam<PlainKernelCase> {
 protected:
  Bench bench_{GetParam().isa, GetParam().slow_bf16_dot};
  bool dots(std::string_view format) const { return format == "bf16" && !GetParam().slow_bf16_dot; }
};
INSTANTIATE_TEST_SUITE_P(Isa, DenseOnEveryIsa, testing::ValuesIn(variants()), plain_kernel_name);

constexpr std::string_view kFormats[] = {"f32", "f16", "bf16"};

TEST_P(DenseOnEveryIsa, a_row_has_the_same_bits_for_any_number_of_rows_and_slices) {
  constexpr uint32_t kOut = 75, kIn = 531, kRows = 300;
  for (std::string_view format : kFormats) {
    const Weight weight(format, kOut, kIn, 3);
    const std::vector<float> x = random_values(5, kRows * kIn);
    const auto all = bench_.multiply(weight, x, kRows);
    for (uint32_t rows = 1; rows <= 65; ++rows) {
      const auto some = bench_.multiply(weight, x, rows, 1 + rows % 4);
      EXPECT_TRUE(same_bits(some.data(), all.data(), some.size())) << format << " rows " << rows;
    }
  }
}

TEST_P(DenseOnEveryIsa, gated_rows_have_the_same_bits_for_any_number_of_slices) {
  const Weight gate("bf16", 70, 64, 3), up("bf16", 70, 64, 4);
  for (uint32_t rows : {1u, 12u, 140u}) {
    const std::vector<float> x = random_values(5, size_t{rows} * 64);
    const auto whole = gated(bench_, gate, up, x, rows, 1);
    const auto shared = gated(bench_, gate, up, x, rows, 3);
    EXPECT_TRUE(same_bits(whole.data(), shared.data(), whole.size())) << "rows " << rows;
  }
}

TEST_P(DenseOnEveryIsa, chosen_rows_in_any_order_have_the_bits_of_the_same_rows_in_a_full_run) {
  constexpr uint32_t kOut = 40, kIn = 130, kRows = 50;
  const Weight weight("bf16", kOut, kIn, 3);
  const std::vector<float> x = random_values(5, kRows * kIn);
  const auto all = bench_.multiply(weight, x, kRows);
  PackedWeight packed = bench_.pack(weight);
  Aligned prepared = bench_.prepare(packed, x, kRows);
  for (const std::vector<uint32_t>& rows :
       {std::vector<uint32_t>{49}, {3, 1, 2}, {9, 9, 0, 48, 7, 30, 31, 5, 6, 2, 1, 44, 43, 42}}) {
    std::vector<float> y(rows.size() * kOut);
    LinearJob job = bench_.job(packed, prepared, kRows, y);
    job.rows = rows;
    bench_.run({job}, 3);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(same_bits(&y[i * kOut], &all[rows[i] * kOut], kOut)) << "row " << rows[i];
    }
  }
}

// A 16-bit value by its definition: sign, exponent, fraction.
float value_of(std::string_view format, uint32_t bits) {
  const int fraction_bits = format == "f16" ? 10 : 7;
  const int bias = format == "f16" ? 15 : 127;
  const int top = format == "f16" ? 31 : 255;
  const int exponent = static_cast<int>(bits >> fraction_bits) & top;
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const float sign = bits >> 15 != 0 ? -1.0f : 1.0f;
  if (exponent == top) return fraction != 0 ? NAN : sign * INFINITY;
  const int hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(static_cast<float>(hidden + fraction),
                           (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
}

TEST_P(DenseOnEveryIsa, every_16_bit_value_is_widened_exactly) {
  for (std::string_view format : {"f16", "bf16"}) {
    if (dots(format)) continue;  // the dot product takes subnormal numbers for zero
    Weight weight(format, 65536, 1, 1);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      std::memcpy(weight.bytes.data() + 2 * bits, &half, 2);
    }
    for (uint32_t rows : {1u, 40u}) {
      const auto y = bench_.multiply(weight, std::vector<float>(rows, 1.0f), rows);
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float want = value_of(format, bits);
        const float got = y[size_t{rows - 1} * 65536 + bits];
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
            << format << " " << bits << " gives " << got << ", not " << want;
      }
    }
  }
}

TEST(Half, narrowing_rounds_to_the_nearest_and_ties_to_even) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = value_of("f16", bits);
    const float high = value_of("f16", bits + 1);
    const float middle = (low + high) / 2;
    ASSERT_EQ(sdk::float_to_f16(low), bits);
    ASSERT_EQ(sdk::float_to_f16(middle), bits + (bits & 1));
    ASSERT_EQ(sdk::float_to_f16(std::nextafter(middle, low)), bits);
    ASSERT_EQ(sdk::float_to_f16(std::nextafter(-middle, -high)), 0x8000 | (bits + 1));
  }
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const float low = value_of("bf16", bits);
    const float high = value_of("bf16", bits + 1);
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(sdk::float_to_bf16(low), bits);
    ASSERT_EQ(sdk::float_to_bf16(middle), bits + (bits & 1));
    ASSERT_EQ(sdk::float_to_bf16(std::nextafter(middle, low)), bits);
  }
  EXPECT_EQ(sdk::float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(sdk::float_to_f16(-65519.0f), 0xfbff);
  EXPECT_TRUE(std::isnan(sdk::f16_to_float(sdk::float_to_f16(NAN))));
  EXPECT_TRUE(std::isnan(sdk::bf16_to_float(sdk::float_to_bf16(NAN))));
}

TEST(Dense, the_name_of_the_numerics_follows_the_processor) {
  EXPECT_EQ(Bench(kCpuPortable).kernel().numerics(), "dense/portable");
  if (detect_cpu_features().has_all(kCpuNeonBf16)) {
    EXPECT_EQ(Bench(kCpuNeonBf16, true).kernel().numerics(), "dense/neon");
    EXPECT_EQ(Bench(kCpuNeonBf16, false).kernel().numerics(), "dense/neon_bf16");
  }
  if (!detect_cpu_features().has(CpuFeature::avx512_bf16)) return;
  EXPECT_EQ(Bench(kCpuAvx2).kernel().numerics(), "dense/avx2");
  EXPECT_EQ(Bench(kCpuAvx512Vnni).kernel().numerics(), "dense/avx512");
  EXPECT_EQ(Bench(kCpuAvx512Bf16, true).kernel().numerics(), "dense/avx512");
  EXPECT_EQ(Bench(kCpuAvx512Bf16, false).kernel().numerics(), "dense/avx512_bf16");
}

TEST(Dense, weights_it_cannot_run_are_refused_with_the_reason) {
  Bench bench(kCpuPortable);
  Weight weight("bf16", 4, 8, 1);
  WeightView view = weight.view();
  EXPECT_TRUE(bench.kernel().accepts(view).ok());
  view.format = "q8_k";
  EXPECT_EQ(
      bench.kernel().accepts(view).message(),
      "weight \"w\" has format \"q8_k\"; \"dense\" multiplies f32, f16, bf16, q8_0, q4_0, "
      "q4_1, q5_0, q5_1, q6_k, q4_k, q5_k, iq4_nl, mxfp4, nf4_32, nf4_64, fp4_32, fp4_64, "
      "u2_32, u2_64, u2_128, u3_32, u3_64, u3_128, u4_32, u4_64, u4_128, u8_32, u8_64, "
      "u8_128, f8_32, f8_64, f8_128, nvfp4_64, q2_k, q3_k, iq4_xs, tq1_0, tq2_0, iq2_xxs, iq2_xs, "
      "iq2_s, iq3_xxs, iq3_s, iq1_s and iq1_m; choose a linear plugin for that format, or "
      "\"auto\"");
  EXPECT_EQ(bench.kernel().packed_bytes(view), 0u);
  view.format = "f16";
  EXPECT_FALSE(bench.kernel().accepts(view).ok());
  view.format = "bf16";
  view.k_in = 9;
  EXPECT_FALSE(bench.kernel().accepts(view).ok());
  view.k_in = 8;
  weight.tensor.stride[0] = uint64_t{1} << 60;
  EXPECT_EQ(bench.kernel().accepts(view).message(),
            "weight \"w\" is larger than any machine's memory; the checkpoint is damaged");
}

}  // namespace
}  // namespace tenon
