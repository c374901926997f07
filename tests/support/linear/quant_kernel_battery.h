// What every linear kernel for quantised formats promises, as tests over its instruction sets. A
// plugin's test includes this once and names itself:
//
//   INSTANTIATE_TEST_SUITE_P(Isa, QuantKernel, quant_kernel_cases("int8", 1e-2),
//                            quant_kernel_name);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/linear/linear_expectations.h"
#include "tests/support/linear/linear_experts.h"
#include "tests/support/linear/linear_rig.h"
#include "tests/support/linear/quant_weight.h"

namespace tenon {

struct QuantKernelCase {
  std::string_view id;
  double tolerance;  // relative RMS against double precision
  CpuFeatures isa;
  bool pairs = false;  // FP8 alone, in fast products of bf16 pairs
};

inline auto quant_kernel_cases(std::string_view id, double tolerance) {
  std::vector<QuantKernelCase> cases;
  for (CpuFeatures isa : runnable_isas()) {
    if (id == "int8" || !adds_byte_products_alone(isa)) cases.push_back({id, tolerance, isa});
  }
  return testing::ValuesIn(cases);
}
inline std::string quant_kernel_name(const testing::TestParamInfo<QuantKernelCase>& given) {
  return std::string(cpu_isa_name(given.param.isa)) + (given.param.pairs ? "_pairs" : "");
}

// Student's t with four degrees of freedom: finite variance, infinite kurtosis.
inline std::vector<float> heavy_tailed(uint64_t seed, size_t count) {
  std::vector<float> values = random_values(seed, count);
  for (float& value : values) {
    const double u = (double{value} + 1 + 1e-9) / (2 + 2e-9);
    const double root = std::sqrt(4 * u * (1 - u));
    const double t = 2 * std::sqrt(std::cos(std::acos(root) / 3) / root - 1);
    value = static_cast<float>(u < 0.5 ? -t : t);
  }
  return values;
}

class QuantKernel : public testing::TestWithParam<QuantKernelCase> {
 protected:
  static std::vector<std::string_view> formats() {
    if (GetParam().pairs) return {std::begin(kFloat8Formats), std::end(kFloat8Formats)};
    return quant_formats_of(GetParam().id);
  }
  LinearRig rig_{GetParam().id, GetParam().isa, !GetParam().pairs};
};

TEST_P(QuantKernel, products_agree_with_double_precision_for_odd_shapes_and_many_row_counts) {
  const std::pair<uint32_t, uint32_t> shapes[] = {{1, 32}, {33, 64}, {70, 544}, {97, 1056}};
  for (std::string_view format : formats()) {
    for (const auto& [n_out, least] : shapes) {
      const uint32_t k_in = whole_blocks(format, least);
      QuantWeight weight(format, n_out, k_in, 7, 3);
      const std::vector<float> w = weight.values();
      for (uint32_t rows : {1u, 2u, 5u, 7u, 8u, 13u, 37u, 150u}) {
        if (n_out * rows < 8) continue;  // one sum near zero is no measure
        const std::vector<float> x = random_values(11, size_t{rows} * k_in);
        const auto y = rig_.multiply(weight.view(), x, rows, 2);
        EXPECT_LE(relative_rms(y, reference_product(w, n_out, x, rows, k_in)), GetParam().tolerance)
            << format << " " << n_out << "x" << k_in << " rows " << rows;
      }
    }
  }
}

TEST_P(QuantKernel, heavy_tailed_inputs_lose_no_more_accuracy) {
  constexpr uint32_t kOut = 64, kIn = 2048, kRows = 8;
  for (std::string_view format : formats()) {
    QuantWeight weight(format, kOut, kIn, 7);
    const std::vector<float> x = heavy_tailed(11, kRows * kIn);
    const auto y = rig_.multiply(weight.view(), x, kRows);
    EXPECT_LE(relative_rms(y, reference_product(weight.values(), kOut, x, kRows, kIn)),
              GetParam().tolerance)
        << format;
  }
}

TEST_P(QuantKernel, a_row_has_the_same_bits_for_any_number_of_rows_and_slices) {
  constexpr uint32_t kOut = 75, kRows = 300;
  for (std::string_view format : formats()) {
    const uint32_t k_in = whole_blocks(format, 544);
    QuantWeight weight(format, kOut, k_in, 3);
    const std::vector<float> x = random_values(5, kRows * k_in);
    const auto all = rig_.multiply(weight.view(), x, kRows);
    for (uint32_t rows = 1; rows <= 70; ++rows) {
      const auto some = rig_.multiply(weight.view(), x, rows, 1 + rows % 4);
      EXPECT_TRUE(same_bits(some.data(), all.data(), some.size())) << format << " rows " << rows;
    }
  }
}

TEST_P(QuantKernel, chosen_rows_in_any_order_have_the_bits_of_the_same_rows_in_a_full_run) {
  constexpr uint32_t kOut = 40, kRows = 50;
  for (std::string_view format : formats()) {
    const uint32_t k_in = whole_blocks(format, 1056);
    QuantWeight weight(format, kOut, k_in, 3);
    const std::vector<float> x = random_values(5, kRows * k_in);
    const auto all = rig_.multiply(weight.view(), x, kRows);
    PackedWeight packed = rig_.pack(weight.view());
    Aligned prepared = rig_.prepare(packed, x, kRows);
    for (const std::vector<uint32_t>& rows :
         {std::vector<uint32_t>{49}, {3, 1, 2}, {9, 9, 0, 48, 7, 30, 31, 5, 6, 2, 1, 44}}) {
      std::vector<float> y(rows.size() * kOut);
      LinearJob job = rig_.job(packed, prepared, kRows, y);
      job.rows = rows;
      rig_.run({job}, 3);
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_TRUE(same_bits(&y[i * kOut], &all[rows[i] * kOut], kOut)) << "row " << rows[i];
      }
    }
  }
}

TEST_P(QuantKernel, jobs_of_one_call_are_shared_out_and_each_is_whole) {
  constexpr uint32_t kIn = 256;
  QuantWeight q("q8_0", 100, kIn, 1), k("q4_1", 36, kIn, 2), v("q6_k", 5, kIn, 3);
  for (uint32_t rows : {1u, 20u}) {
    const std::vector<float> x = random_values(5, rows * kIn);
    for (uint32_t slices = 1; slices <= 4; ++slices) {
      std::vector<LinearJob> jobs;
      std::vector<PackedWeight> packed;
      std::vector<Aligned> prepared;
      std::vector<std::vector<float>> y;
      for (const QuantWeight* w : {&q, &k, &v}) {
        packed.push_back(rig_.pack(w->view()));
        prepared.push_back(rig_.prepare(packed.back(), x, rows));
        y.emplace_back(size_t{rows} * w->n_out, NAN);
      }
      for (size_t i = 0; i < 3; ++i) {
        jobs.push_back(rig_.job(packed[i], prepared[i], rows, y[i]));
      }
      rig_.run(jobs, slices);
      for (size_t i = 0; i < 3; ++i) {
        QuantWeight& w = i == 0 ? q : (i == 1 ? k : v);
        const auto alone = rig_.multiply(w.view(), x, rows);
        EXPECT_TRUE(same_bits(y[i].data(), alone.data(), alone.size())) << "job " << i;
      }
    }
  }
}

TEST_P(QuantKernel, a_bias_and_the_old_value_are_added_after_the_sum) {
  QuantWeight weight("q8_0", 45, 64, 3);
  expect_bias_and_old_value_behind_the_sum(rig_, weight.view());
}

TEST_P(QuantKernel, silu_mul_gates_the_second_product_with_the_first) {
  constexpr uint32_t kOut = 70;
  for (std::string_view format : formats()) {
    const uint32_t k_in = whole_blocks(format, 544);
    QuantWeight gate(format, kOut, k_in, 3), up(format, kOut, k_in, 4);
    for (uint32_t rows : {1u, 3u, 12u, 140u}) {
      const std::vector<float> x = random_values(5, rows * k_in);
      const auto g = rig_.multiply(gate.view(), x, rows), u = rig_.multiply(up.view(), x, rows);
      std::vector<double> want(g.size());
      for (size_t i = 0; i < want.size(); ++i)
        want[i] = g[i] / (1 + std::exp(-double{g[i]})) * u[i];
      PackedWeight packed_gate = rig_.pack(gate.view()), packed_up = rig_.pack(up.view());
      Aligned prepared = rig_.prepare(packed_gate, x, rows);
      for (uint32_t slices : {1u, 3u}) {
        std::vector<float> y(rows * kOut, NAN);
        LinearJob job = rig_.job(packed_gate, prepared, rows, y);
        job.packed_second = packed_up.get();
        job.epilogue = Epilogue::silu_mul;
        rig_.run({job}, slices);
        EXPECT_LE(relative_rms(y, want), 1e-6) << format << " rows " << rows;
      }
    }
  }
}

TEST_P(QuantKernel, gates_are_ended_alone_in_the_same_bits) {
  for (std::string_view format : formats()) {
    SCOPED_TRACE(format);
    QuantWeight gate(format, 70, whole_blocks(format, 544), 3);
    QuantWeight up(format, 70, whole_blocks(format, 544), 4);
    expect_gates_are_ended_alone(rig_, gate.view(), up.view());
  }
}

TEST_P(QuantKernel, rows_come_back_from_packed_weights_exactly) {
  for (std::string_view format : formats()) {
    const uint32_t k_in = whole_blocks(format, 96);
    QuantWeight weight(format, 71, k_in, 3, 1);
    expect_rows_to_come_back_exactly(rig_, weight.view(), weight.values());
  }
}

TEST_P(QuantKernel, orders_beyond_the_host_are_refused_before_anything_is_written) {
  QuantWeight weight("q4_0", 40, 320, 3);
  expect_orders_beyond_the_host_to_be_refused(rig_, weight.view());
}

TEST_P(QuantKernel, rows_are_packed_in_the_order_given) {
  constexpr uint32_t kOut = 71;
  for (std::string_view format : formats()) {
    const uint32_t k_in = whole_blocks(format, 96);
    QuantWeight stored(format, kOut, k_in, 3, 1), in_turn(format, kOut, k_in, 4);
    std::vector<uint32_t> order(kOut);
    for (uint32_t row = 0; row < kOut; ++row) {
      order[row] = row * 30 % kOut;
      std::memcpy(in_turn.block(row, 0), stored.block(order[row], 0),
                  stored.blocks.row_bytes(k_in));
    }
    expect_rows_in_the_order_given(rig_, stored.view(), in_turn.view(), order);
  }
}

TEST_P(QuantKernel, slices_prepare_their_own_rows) {
  QuantWeight weight("q8_0", 40, 544, 3);
  expect_slices_to_prepare_their_own_rows(rig_, weight.view());
}

TEST_P(QuantKernel, the_largest_values_of_both_signs_do_not_saturate) {
  for (std::string_view format : GetParam().pairs ? formats() : exact_formats_of(GetParam().id)) {
    const uint32_t k_in = whole_blocks(format, 64);
    for (int byte : {0x00, 0x7f, 0x80, 0xff}) {
      QuantWeight weight(format, 40, k_in, 3);
      for (uint32_t n = 0; n < 40; ++n) {
        for (uint32_t b = 0; b < weight.block_count(); ++b) {
          std::memset(weight.block(n, b), byte, weight.blocks.bytes);
          weight.set_scale(n, b, sdk::float_to_f16(1.0f));
          weight.set_minimum(n, b, sdk::float_to_f16(1.0f));
          weight.set_zero(n, b, 0.25f);
        }
      }
      for (float sign : {1.0f, -1.0f}) {
        const std::vector<float> x(7 * k_in, sign * 127.0f);
        const auto want = reference_product(weight.values(), 40, x, 7, k_in);
        const auto y = rig_.multiply(weight.view(), x, 7);
        for (size_t i = 0; i < y.size(); ++i) {
          const double slack = weight.has_long_products() ? 1e-5 * std::fabs(want[i]) : 0;
          ASSERT_NEAR(y[i], want[i], slack) << format << " " << byte;
        }
      }
    }
  }
}

TEST_P(QuantKernel, rows_are_chosen_scaled_and_scattered_as_a_job_says) {
  for (std::string_view format : formats()) {
    QuantWeight weight(format, 45, whole_blocks(format, 544), 3);
    expect_rows_to_be_chosen_scaled_and_scattered(rig_, weight.view());
  }
}

TEST_P(QuantKernel, only_as_many_rows_as_are_used_are_multiplied) {
  QuantWeight weight("q4_0", 70, 64, 3);
  expect_only_the_leading_rows_to_be_used(rig_, weight.view());
}

TEST_P(QuantKernel, experts_give_what_a_plain_loop_over_tokens_gives) {
  for (std::string_view format : formats()) {
    const uint32_t k_in = whole_blocks(format, 288);
    QuantWeight a(format, 70, k_in, 1), b(format, 70, k_in, 2), c(format, 70, k_in, 3);
    expect_experts_to_give_what_a_plain_loop_gives(rig_, {a.view(), b.view(), c.view()});
  }
}

TEST_P(QuantKernel, a_poisoned_row_leaves_its_neighbours_alone) {
  for (std::string_view format : formats()) {
    for (float poison : {NAN, INFINITY}) {
      const uint32_t k_in = whole_blocks(format, 96);
      QuantWeight weight(format, 40, k_in, 3);
      std::vector<float> x = random_values(5, 30 * k_in);
      const auto clean = rig_.multiply(weight.view(), x, 30);
      x[7 * k_in + 3] = poison;
      const auto poisoned = rig_.multiply(weight.view(), x, 30);
      for (uint32_t r = 0; r < 30; ++r) {
        if (r == 7) continue;
        EXPECT_TRUE(same_bits(&clean[r * 40], &poisoned[r * 40], 40)) << "row " << r;
      }
      EXPECT_FALSE(std::isfinite(poisoned[7 * 40]));
    }
  }
}

TEST_P(QuantKernel, a_damaged_scale_spoils_its_own_column_alone) {
  constexpr uint16_t kInfinite = 0x7c00, kNan = 0x7e00;
  for (std::string_view format : formats()) {
    if (block_scales_of(format).scale == BlockScale::power)
      continue;  // no byte of its scale is damaged
    for (uint16_t scale : {kInfinite, kNan}) {
      for (uint32_t rows : {1u, 60u}) {
        const uint32_t k_in = whole_blocks(format, 96);
        QuantWeight weight(format, 40, k_in, 3);
        const std::vector<float> x = random_values(5, rows * k_in);
        const auto clean = rig_.multiply(weight.view(), x, rows);
        weight.set_scale(13, weight.block_count() - 1, scale);
        const auto spoilt = rig_.multiply(weight.view(), x, rows);
        for (size_t i = 0; i < clean.size(); ++i) {
          if (i % 40 == 13) {
            EXPECT_FALSE(std::isfinite(spoilt[i])) << format;
          } else {
            ASSERT_TRUE(same_bits(&spoilt[i], &clean[i], 1)) << format << " element " << i;
          }
        }
      }
    }
  }
}

TEST_P(QuantKernel, zeros_and_the_smallest_numbers_are_multiplied_without_surprise) {
  QuantWeight weight("q8_0", 33, 64, 3);
  std::vector<float> x(64, 0.0f);
  for (float value : rig_.multiply(weight.view(), x, 1)) EXPECT_EQ(value, 0.0f);
  x[5] = std::numeric_limits<float>::denorm_min();
  for (float value : rig_.multiply(weight.view(), x, 1)) EXPECT_NEAR(value, 0.0f, 1e-34);
}

TEST_P(QuantKernel, weights_it_cannot_run_are_refused_with_the_reason) {
  QuantWeight weight("q8_0", 4, 64, 1);
  WeightView view = weight.view();
  EXPECT_TRUE(rig_.kernel().accepts(view).ok());
  view.format = "q4_0";
  EXPECT_FALSE(rig_.kernel().accepts(view).ok());
  view.format = "q8_0";
  view.k_in = 72;
  EXPECT_EQ(
      rig_.kernel().accepts(view).message(),
      "weight \"w\" has rows of 72 values; q8_0 stores whole blocks of 32, so the length must "
      "be a multiple of 32; the checkpoint is damaged");
  QuantWeight nested("q6_k", 4, 512, 1);
  view = nested.view();
  EXPECT_TRUE(rig_.kernel().accepts(view).ok());
  view.k_in = 384;
  EXPECT_EQ(
      rig_.kernel().accepts(view).message(),
      "weight \"w\" has rows of 384 values; q6_k stores whole blocks of 256, so the length must "
      "be a multiple of 256; the checkpoint is damaged");
  view = weight.view();
  weight.tensor.stride[0] = uint64_t{1} << 60;
  EXPECT_EQ(rig_.kernel().accepts(view).message(),
            "weight \"w\" is larger than any machine's memory; the checkpoint is damaged");
}

}  // namespace tenon
