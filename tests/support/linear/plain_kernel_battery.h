// What every linear kernel for plain formats promises, as tests over its variants. A plugin's test
// includes this once and names itself:
//
//   INSTANTIATE_TEST_SUITE_P(Dense, PlainKernel, testing::ValuesIn(variants()),
//   plain_kernel_name);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/linear/linear_expectations.h"
#include "tests/support/linear/linear_experts.h"
#include "tests/support/linear/linear_rig.h"
#include "tests/support/linear/plain_weight.h"

namespace tenon {

struct PlainKernelCase {
  std::string_view id;
  CpuFeatures isa = kCpuPortable;
  bool slow_bf16_dot = true;
  std::vector<std::string_view> formats = {"f32", "f16", "bf16"};
  double bf16_tolerance = 1e-5;  // relative RMS against double precision; others keep 1e-5

  double tolerance(std::string_view format) const {
    return format == "bf16" ? bf16_tolerance : 1e-5;
  }
};
inline std::string plain_kernel_name(const testing::TestParamInfo<PlainKernelCase>& given) {
  return std::string(cpu_isa_name(given.param.isa)) + (given.param.slow_bf16_dot ? "" : "_dot");
}

class PlainKernel : public testing::TestWithParam<PlainKernelCase> {
 protected:
  LinearRig rig_{GetParam().id, GetParam().isa, GetParam().slow_bf16_dot};
};

TEST_P(PlainKernel, products_agree_with_double_precision_for_odd_shapes_and_many_row_counts) {
  const std::pair<uint32_t, uint32_t> shapes[] = {{1, 1}, {33, 65}, {70, 301}, {16, 512}, {97, 7}};
  for (std::string_view format : GetParam().formats) {
    for (const auto& [n_out, k_in] : shapes) {
      const PlainWeight weight(format, n_out, k_in, 7, 3);
      for (uint32_t rows : {1u, 2u, 5u, 12u, 13u, 37u, 64u, 150u}) {
        const std::vector<float> x = random_values(11, size_t{rows} * k_in);
        const auto y = rig_.multiply(weight.view(), x, rows, 2);
        EXPECT_LE(relative_rms(y, reference_product(weight, x, rows)), GetParam().tolerance(format))
            << format << " " << n_out << "x" << k_in << " rows " << rows;
      }
    }
  }
}

TEST_P(PlainKernel, jobs_of_one_call_are_shared_out_and_each_is_whole) {
  constexpr uint32_t kIn = 96;
  const auto& formats = GetParam().formats;
  const PlainWeight weights[] = {{formats[0], 100, kIn, 1},
                                 {formats[1 % formats.size()], 36, kIn, 2},
                                 {formats.back(), 5, kIn, 3}};
  PackedWeight packed[] = {rig_.pack(weights[0].view()), rig_.pack(weights[1].view()),
                           rig_.pack(weights[2].view())};
  for (uint32_t rows : {1u, 20u}) {
    const std::vector<float> x = random_values(5, rows * kIn);
    std::vector<Aligned> prepared;
    for (PackedWeight& weight : packed) prepared.push_back(rig_.prepare(weight, x, rows));
    for (uint32_t slices = 1; slices <= 4; ++slices) {
      std::vector<float> y[3];
      std::vector<LinearJob> jobs;
      for (size_t i = 0; i < 3; ++i) {
        y[i].assign(size_t{rows} * weights[i].n_out, NAN);
        jobs.push_back(rig_.job(packed[i], prepared[i], rows, y[i]));
      }
      rig_.run(jobs, slices);
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_LE(relative_rms(y[i], reference_product(weights[i], x, rows)),
                  GetParam().tolerance(weights[i].format))
            << "job " << i << " rows " << rows << " slices " << slices;
      }
    }
  }
}

TEST_P(PlainKernel, a_bias_and_the_old_value_are_added_after_the_sum) {
  const PlainWeight weight("f32", 45, 33, 3);
  expect_bias_and_old_value_behind_the_sum(rig_, weight.view());
}

// silu(x·gateᵀ) · (x·upᵀ) of all rows, made by the kernel.
inline std::vector<float> gated(LinearRig& rig, const PlainWeight& gate, const PlainWeight& up,
                                const std::vector<float>& x, uint32_t rows, uint32_t slices) {
  PackedWeight packed_gate = rig.pack(gate.view()), packed_up = rig.pack(up.view());
  Aligned prepared = rig.prepare(packed_gate, x, rows);
  std::vector<float> y(size_t{rows} * gate.n_out, NAN);
  LinearJob job = rig.job(packed_gate, prepared, rows, y);
  job.packed_second = packed_up.get();
  job.epilogue = Epilogue::silu_mul;
  rig.run({job}, slices);
  return y;
}

TEST_P(PlainKernel, silu_mul_gates_the_second_product_with_the_first) {
  const PlainWeight gate("bf16", 70, 64, 3), up("bf16", 70, 64, 4);
  if (!rig_.kernel().accepts(gate.view()).ok()) GTEST_SKIP() << "bf16 does not run here";
  for (uint32_t rows : {1u, 3u, 12u, 40u, 140u}) {
    const std::vector<float> x = random_values(5, size_t{rows} * 64);
    const auto want = reference_gate(gate, up, x, rows);
    for (uint32_t slices : {1u, 3u}) {
      EXPECT_LE(relative_rms(gated(rig_, gate, up, x, rows, slices), want),
                2 * GetParam().bf16_tolerance)
          << "rows " << rows << " slices " << slices;
    }
  }
}

TEST_P(PlainKernel, gates_are_ended_alone_in_the_same_bits) {
  if (rig_.gate_finish() == nullptr) GTEST_SKIP() << "the kernel ends no gates by themselves";
  for (std::string_view format : GetParam().formats) {
    SCOPED_TRACE(format);
    const PlainWeight gate(format, 70, 64, 3), up(format, 70, 64, 4);
    if (!rig_.kernel().accepts(gate.view()).ok()) continue;
    expect_gates_are_ended_alone(rig_, gate.view(), up.view());
  }
}

TEST_P(PlainKernel, silu_of_large_values_neither_overflows_nor_becomes_nan) {
  PlainWeight gate("f32", 4, 1, 3), up("f32", 4, 1, 3);
  const float gates[] = {200.0f, -200.0f, 0.0f, -88.0f};
  for (int i = 0; i < 4; ++i) {
    const float one = 1.0f;
    std::memcpy(gate.bytes.data() + 4 * i, &gates[i], 4);
    std::memcpy(up.bytes.data() + 4 * i, &one, 4);
  }
  const std::vector<float> y = gated(rig_, gate, up, {1.0f}, 1, 1);
  EXPECT_EQ(y[0], 200.0f);
  EXPECT_NEAR(y[1], 0.0f, 1e-30);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_NEAR(y[3], -88.0 * std::exp(-88.0), 1e-36);
}

TEST_P(PlainKernel, rows_come_back_from_packed_weights_exactly) {
  for (std::string_view format : GetParam().formats) {
    const PlainWeight weight(format, 71, 37, 3, 1);
    expect_rows_to_come_back_exactly(rig_, weight.view(), weight.values);
  }
}

TEST_P(PlainKernel, orders_beyond_the_host_are_refused_before_anything_is_written) {
  const PlainWeight weight(GetParam().formats.back(), 40, 301, 3);
  expect_orders_beyond_the_host_to_be_refused(rig_, weight.view());
}

TEST_P(PlainKernel, rows_are_chosen_scaled_and_scattered_as_a_job_says) {
  for (std::string_view format : GetParam().formats) {
    const PlainWeight weight(format, 45, 301, 3);
    expect_rows_to_be_chosen_scaled_and_scattered(rig_, weight.view());
  }
}

TEST_P(PlainKernel, a_factor_of_a_row_scales_both_products_of_a_gate) {
  constexpr uint32_t kRows = 3, kIn = 64;
  const PlainWeight gate("f32", 70, kIn, 3), up("f32", 70, kIn, 4);
  const std::vector<float> x = random_values(5, kRows * kIn);
  const float scale[kRows] = {0.5f, 1.0f, -2.0f};
  std::vector<float> scaled = x;  // by powers of two: exact
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= scale[i / kIn];
  const auto want = gated(rig_, gate, up, scaled, kRows, 1);
  PackedWeight packed_gate = rig_.pack(gate.view()), packed_up = rig_.pack(up.view());
  Aligned prepared = rig_.prepare(packed_gate, x, kRows);
  std::vector<float> y(want.size(), NAN);
  LinearJob job = rig_.job(packed_gate, prepared, kRows, y);
  job.packed_second = packed_up.get();
  job.epilogue = Epilogue::silu_mul;
  job.row_scale = scale;
  rig_.run({job}, 2);
  EXPECT_TRUE(same_bits(y.data(), want.data(), y.size()));
}

TEST_P(PlainKernel, only_as_many_rows_as_are_used_are_multiplied) {
  const PlainWeight weight("f32", 70, 65, 3);
  expect_only_the_leading_rows_to_be_used(rig_, weight.view());
}

TEST_P(PlainKernel, experts_give_what_a_plain_loop_over_tokens_gives) {
  for (std::string_view format : GetParam().formats) {
    const PlainWeight a(format, 70, 130, 1), b(format, 70, 130, 2), c(format, 70, 130, 3);
    expect_experts_to_give_what_a_plain_loop_gives(rig_, {a.view(), b.view(), c.view()});
  }
}

TEST_P(PlainKernel, a_poisoned_row_leaves_its_neighbours_alone) {
  const PlainWeight weight(GetParam().formats.back(), 40, 100, 3);
  std::vector<float> x = random_values(5, 30 * 100);
  const auto clean = rig_.multiply(weight.view(), x, 30);
  x[7 * 100 + 3] = NAN;
  const auto poisoned = rig_.multiply(weight.view(), x, 30);
  for (uint32_t r = 0; r < 30; ++r) {
    if (r == 7) continue;
    EXPECT_TRUE(same_bits(&clean[r * 40], &poisoned[r * 40], 40)) << "row " << r;
  }
  EXPECT_TRUE(std::isnan(poisoned[7 * 40]));
}

TEST_P(PlainKernel, rows_are_packed_in_the_order_given) {
  constexpr uint32_t kOut = 71, kIn = 37;
  for (std::string_view format : GetParam().formats) {
    PlainWeight stored(format, kOut, kIn, 3, 1), in_turn(format, kOut, kIn, 4);
    std::vector<uint32_t> order(kOut);
    const size_t row_bytes = in_turn.bytes.size() / kOut;
    for (uint32_t row = 0; row < kOut; ++row) {
      order[row] = row * 30 % kOut;
      std::memcpy(&in_turn.bytes[row * row_bytes], &stored.bytes[1 + order[row] * row_bytes],
                  row_bytes);
    }
    expect_rows_in_the_order_given(rig_, stored.view(), in_turn.view(), order);
  }
}

TEST_P(PlainKernel, slices_prepare_their_own_rows) {
  for (std::string_view format : GetParam().formats) {
    const PlainWeight weight(format, 40, 301, 3);
    expect_slices_to_prepare_their_own_rows(rig_, weight.view());
  }
}

}  // namespace tenon
