#include <gtest/gtest.h>
#include <tenon/linear.h>
#include <tenon/sdk/half.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/linear_rig.h"

namespace tenon {
namespace {

// A weight [n_out, k_in] as a checkpoint has it, starting at any byte.
struct Weight {
  std::string format;
  uint32_t n_out, k_in;
  std::vector<float> values;  // what the format holds, widened
  std::vector<std::byte> bytes;
  TensorView tensor;

  Weight(std::string_view name, uint32_t rows, uint32_t columns, uint64_t seed,
         uint32_t misalignment = 0)
      : format(name), n_out(rows), k_in(columns) {
    values = random_values(seed, size_t{rows} * columns);
    const size_t size = format == "f32" ? 4 : 2;
    bytes.resize(misalignment + values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = 0;
      if (format == "f16") values[i] = sdk::f16_to_float(half = sdk::float_to_f16(values[i]));
      if (format == "bf16") values[i] = sdk::bf16_to_float(half = sdk::float_to_bf16(values[i]));
      std::memcpy(bytes.data() + misalignment + i * size,
                  size == 4 ? static_cast<const void*>(&values[i]) : &half, size);
    }
    tensor.data = bytes.data() + misalignment;
    tensor.dtype = format == "f32" ? DType::f32 : (format == "f16" ? DType::f16 : DType::bf16);
    tensor.rank = 2;
    tensor.shape[0] = n_out;
    tensor.shape[1] = k_in;
    tensor.stride[0] = k_in;
  }
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  WeightView view() const {
    return {.format = format, .name = "w", .n_out = n_out, .k_in = k_in, .parts = {&tensor, 1}};
  }
};

// A dense kernel.
struct Bench : LinearRig {
  explicit Bench(CpuIsa isa, bool slow_bf16_dot = true) : LinearRig("dense", isa, slow_bf16_dot) {}
  Aligned pack(const Weight& weight, uint32_t slices = 1) {
    return LinearRig::pack(weight.view(), slices);
  }
  std::vector<float> multiply(const Weight& weight, const std::vector<float>& x, uint32_t rows,
                              uint32_t slices = 1) {
    return LinearRig::multiply(weight.view(), x, rows, slices);
  }
};

std::vector<double> reference(const Weight& weight, const std::vector<float>& x, uint32_t rows) {
  return reference_product(weight.values, weight.n_out, x, rows, weight.k_in);
}

// Every way a kernel can multiply here: instruction sets, and bf16 with and without dot products.
struct Variant {
  CpuIsa isa;
  bool slow_bf16_dot;
};
class DenseOnEveryIsa : public testing::TestWithParam<Variant> {
 protected:
  Bench bench_{GetParam().isa, GetParam().slow_bf16_dot};
  bool dots(std::string_view format) const {
    return format == "bf16" && GetParam().isa == CpuIsa::avx512_bf16 && !GetParam().slow_bf16_dot;
  }
};
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (CpuIsa isa : runnable_isas()) all.push_back({isa, true});
  if (all.back().isa == CpuIsa::avx512_bf16) all.push_back({CpuIsa::avx512_bf16, false});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Isa, DenseOnEveryIsa, testing::ValuesIn(variants()),
                         [](const auto& given) {
                           return std::string(cpu_isa_name(given.param.isa)) +
                                  (given.param.slow_bf16_dot ? "" : "_dot");
                         });

constexpr std::string_view kFormats[] = {"f32", "f16", "bf16"};

TEST_P(DenseOnEveryIsa, products_agree_with_double_precision_for_odd_shapes_and_many_row_counts) {
  const std::pair<uint32_t, uint32_t> shapes[] = {{1, 1}, {33, 65}, {70, 301}, {16, 512}, {97, 7}};
  for (std::string_view format : kFormats) {
    for (const auto& [n_out, k_in] : shapes) {
      const Weight weight(format, n_out, k_in, 7, 3);
      for (uint32_t rows : {1u, 2u, 5u, 12u, 13u, 37u, 64u, 150u}) {
        const std::vector<float> x = random_values(11, size_t{rows} * k_in);
        const auto y = bench_.multiply(weight, x, rows, 2);
        EXPECT_LE(relative_rms(y, reference(weight, x, rows)), dots(format) ? 3e-3 : 1e-5)
            << format << " " << n_out << "x" << k_in << " rows " << rows;
      }
    }
  }
}

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

TEST_P(DenseOnEveryIsa, chosen_rows_in_any_order_have_the_bits_of_the_same_rows_in_a_full_run) {
  constexpr uint32_t kOut = 40, kIn = 130, kRows = 50;
  const Weight weight("bf16", kOut, kIn, 3);
  const std::vector<float> x = random_values(5, kRows * kIn);
  const auto all = bench_.multiply(weight, x, kRows);
  Aligned packed = bench_.pack(weight);
  Aligned prepared = bench_.prepare(x, kRows, kIn);
  for (const std::vector<uint32_t>& rows :
       {std::vector<uint32_t>{49}, {3, 1, 2}, {9, 9, 0, 48, 7, 30, 31, 5, 6, 2, 1, 44, 43, 42}}) {
    std::vector<float> y(rows.size() * kOut);
    bench_.run({{.packed = packed.get(),
                 .n_out = kOut,
                 .k_in = kIn,
                 .prepared = prepared.get(),
                 .x_rows = kRows,
                 .rows = rows,
                 .y = y.data(),
                 .y_stride = kOut}},
               3);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(same_bits(&y[i * kOut], &all[rows[i] * kOut], kOut)) << "row " << rows[i];
    }
  }
}

TEST_P(DenseOnEveryIsa, jobs_of_one_call_are_shared_out_and_each_is_whole) {
  constexpr uint32_t kIn = 96;
  const Weight q("bf16", 100, kIn, 1), k("f16", 36, kIn, 2), v("f32", 5, kIn, 3);
  for (uint32_t rows : {1u, 20u}) {
    const std::vector<float> x = random_values(5, rows * kIn);
    Aligned pq = bench_.pack(q), pk = bench_.pack(k), pv = bench_.pack(v);
    Aligned prepared = bench_.prepare(x, rows, kIn);
    for (uint32_t slices = 1; slices <= 4; ++slices) {
      std::vector<float> yq(rows * 100, NAN), yk(rows * 36, NAN), yv(rows * 5, NAN);
      const auto job = [&](Aligned& packed, const Weight& w, std::vector<float>& y) {
        return LinearJob{.packed = packed.get(),
                         .n_out = w.n_out,
                         .k_in = kIn,
                         .prepared = prepared.get(),
                         .x_rows = rows,
                         .y = y.data(),
                         .y_stride = w.n_out};
      };
      bench_.run({job(pq, q, yq), job(pk, k, yk), job(pv, v, yv)}, slices);
      EXPECT_LE(relative_rms(yq, reference(q, x, rows)), dots("bf16") ? 3e-3 : 1e-5);
      EXPECT_LE(relative_rms(yk, reference(k, x, rows)), 1e-5);
      EXPECT_LE(relative_rms(yv, reference(v, x, rows)), 1e-5);
    }
  }
}

TEST_P(DenseOnEveryIsa, a_bias_and_the_old_value_are_added_after_the_sum) {
  const Weight weight("f32", 45, 33, 3);
  expect_bias_and_old_value_behind_the_sum(bench_, weight.view());
}

TEST_P(DenseOnEveryIsa, silu_mul_gates_the_second_product_with_the_first) {
  constexpr uint32_t kOut = 70, kIn = 64;
  const Weight gate("bf16", kOut, kIn, 3), up("bf16", kOut, kIn, 4);
  for (uint32_t rows : {1u, 3u, 12u, 40u, 140u}) {
    const std::vector<float> x = random_values(5, rows * kIn);
    Aligned packed_gate = bench_.pack(gate), packed_up = bench_.pack(up);
    Aligned prepared = bench_.prepare(x, rows, kIn);
    const auto g = reference(gate, x, rows), u = reference(up, x, rows);
    std::vector<double> want(g.size());
    for (size_t i = 0; i < want.size(); ++i) want[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
    std::vector<std::vector<float>> by_slices;
    for (uint32_t slices : {1u, 3u}) {
      std::vector<float> y(rows * kOut, NAN);
      bench_.run({{.packed = packed_gate.get(),
                   .packed_second = packed_up.get(),
                   .n_out = kOut,
                   .k_in = kIn,
                   .prepared = prepared.get(),
                   .x_rows = rows,
                   .y = y.data(),
                   .y_stride = kOut,
                   .epilogue = Epilogue::silu_mul}},
                 slices);
      EXPECT_LE(relative_rms(y, want), dots("bf16") ? 5e-3 : 1e-5) << "rows " << rows;
      by_slices.push_back(y);
    }
    EXPECT_TRUE(same_bits(by_slices[0].data(), by_slices[1].data(), by_slices[0].size()));
  }
}

TEST_P(DenseOnEveryIsa, silu_of_large_values_neither_overflows_nor_becomes_nan) {
  Weight gate("f32", 4, 1, 3), up("f32", 4, 1, 3);
  const float gates[] = {200.0f, -200.0f, 0.0f, -88.0f};
  for (int i = 0; i < 4; ++i) {
    const float one = 1.0f;
    std::memcpy(gate.bytes.data() + 4 * i, &gates[i], 4);
    std::memcpy(up.bytes.data() + 4 * i, &one, 4);
  }
  Aligned packed_gate = bench_.pack(gate), packed_up = bench_.pack(up);
  Aligned prepared = bench_.prepare({1.0f}, 1, 1);
  float y[4];
  bench_.run({{.packed = packed_gate.get(),
               .packed_second = packed_up.get(),
               .n_out = 4,
               .k_in = 1,
               .prepared = prepared.get(),
               .x_rows = 1,
               .y = y,
               .y_stride = 4,
               .epilogue = Epilogue::silu_mul}});
  EXPECT_EQ(y[0], 200.0f);
  EXPECT_NEAR(y[1], 0.0f, 1e-30);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_NEAR(y[3], -88.0 * std::exp(-88.0), 1e-36);
}

TEST_P(DenseOnEveryIsa, rows_come_back_from_packed_weights_exactly) {
  for (std::string_view format : kFormats) {
    const Weight weight(format, 71, 37, 3, 1);
    Aligned packed = bench_.pack(weight, 3);
    for (uint32_t row : {0u, 15u, 16u, 70u}) {
      std::vector<float> out(37);
      bench_.kernel().unpack_row(packed.get(), 71, 37, row, out.data());
      EXPECT_TRUE(same_bits(out.data(), &weight.values[row * 37], 37)) << format << " row " << row;
    }
  }
}

TEST_P(DenseOnEveryIsa, a_poisoned_row_leaves_its_neighbours_alone) {
  const Weight weight("bf16", 40, 100, 3);
  std::vector<float> x = random_values(5, 30 * 100);
  const auto clean = bench_.multiply(weight, x, 30);
  x[7 * 100 + 3] = NAN;
  const auto poisoned = bench_.multiply(weight, x, 30);
  for (uint32_t r = 0; r < 30; ++r) {
    if (r == 7) continue;
    EXPECT_TRUE(same_bits(&clean[r * 40], &poisoned[r * 40], 40)) << "row " << r;
  }
  EXPECT_TRUE(std::isnan(poisoned[7 * 40]));
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
  EXPECT_EQ(Bench(CpuIsa::portable).kernel().numerics(), "dense/portable");
  if (detect_cpu_isa() < CpuIsa::avx512_bf16) return;
  EXPECT_EQ(Bench(CpuIsa::avx2).kernel().numerics(), "dense/avx2");
  EXPECT_EQ(Bench(CpuIsa::avx512_vnni).kernel().numerics(), "dense/avx512");
  EXPECT_EQ(Bench(CpuIsa::avx512_bf16, true).kernel().numerics(), "dense/avx512");
  EXPECT_EQ(Bench(CpuIsa::avx512_bf16, false).kernel().numerics(), "dense/avx512_bf16");
}

TEST(Dense, weights_it_cannot_run_are_refused_with_the_reason) {
  Bench bench(CpuIsa::portable);
  Weight weight("bf16", 4, 8, 1);
  WeightView view = weight.view();
  EXPECT_TRUE(bench.kernel().accepts(view).ok());
  view.format = "q3_k";
  EXPECT_EQ(bench.kernel().accepts(view).message(),
            "weight \"w\" has format \"q3_k\"; \"dense\" multiplies f32, f16, bf16, q8_0, q4_0, "
            "q4_1, q5_0, q5_1, q6_k, q4_k and q5_k; choose a linear plugin for that format, or "
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
