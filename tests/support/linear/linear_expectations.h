// What linear kernels for plain and for quantised formats have in common, as expectations that
// either battery calls with weights of its own.
#pragma once

#include <gtest/gtest.h>
#include <tenon/linear.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/linear/linear_rig.h"

namespace tenon {

// Epilogues store and add with a bias, in rows wider than the product: what is after it stays.
inline void expect_bias_and_old_value_behind_the_sum(LinearRig& rig, const WeightView& weight) {
  const uint32_t stride = weight.n_out + 5;
  const std::vector<float> bias = random_values(8, weight.n_out);
  for (uint32_t rows : {1u, 30u}) {
    const std::vector<float> x = random_values(5, size_t{rows} * weight.k_in);
    const auto plain = rig.multiply(weight, x, rows);
    PackedWeight packed = rig.pack(weight);
    Aligned prepared = rig.prepare(packed, x, rows);
    for (Epilogue epilogue : {Epilogue::store, Epilogue::add}) {
      std::vector<float> y = random_values(9, size_t{rows} * stride);
      const std::vector<float> before = y;
      LinearJob job = rig.job(packed, prepared, rows, y);
      job.y_stride = stride;
      job.bias = bias.data();
      job.epilogue = epilogue;
      rig.run({job}, 2);
      for (uint32_t i = 0; i < y.size(); ++i) {
        const uint32_t r = i / stride, n = i % stride;
        float want = before[i];
        if (n < weight.n_out) {
          const float sum = plain[r * weight.n_out + n] + bias[n];
          want = epilogue == Epilogue::add ? before[i] + sum : sum;
        }
        ASSERT_EQ(y[i], want) << "row " << r << " column " << n;
      }
    }
  }
}

// Gates that are ended after their products, in pieces of any length, have the bits of those that
// the kernel ends in one job.
inline void expect_gates_are_ended_alone(LinearRig& rig, const WeightView& gate,
                                         const WeightView& up) {
  ASSERT_NE(rig.gate_finish(), nullptr);
  const GateFinishCall finish = rig.gate_finish()->silu_mul;
  ASSERT_NE(finish, nullptr);
  PackedWeight packed_gate = rig.pack(gate), packed_up = rig.pack(up);
  for (uint32_t rows : {1u, 5u, 40u}) {
    std::vector<float> x = random_values(5, size_t{rows} * gate.k_in);
    for (float& value : x) value *= 8.0f;  // gates of all sizes
    Aligned prepared = rig.prepare(packed_gate, x, rows);
    std::vector<float> whole(size_t{rows} * gate.n_out, NAN), apart = whole, second = whole;
    LinearJob job = rig.job(packed_gate, prepared, rows, whole);
    job.packed_second = packed_up.get();
    job.epilogue = Epilogue::silu_mul;
    rig.run({job}, 2);
    rig.run(
        {rig.job(packed_gate, prepared, rows, apart), rig.job(packed_up, prepared, rows, second)},
        3);
    for (size_t first = 0, length = 1; first < apart.size(); first += length++) {
      finish(apart.data() + first, second.data() + first, std::min(length, apart.size() - first));
    }
    EXPECT_TRUE(same_bits(apart.data(), whole.data(), whole.size())) << "rows " << rows;
  }
}

// A weight whose rows stand in another order packs into the bytes of one where they stand in turn.
// `in_turn` has the rows that `shuffled`, given `order`, stands for.
inline void expect_rows_in_the_order_given(LinearRig& rig, WeightView shuffled,
                                           const WeightView& in_turn,
                                           std::span<const uint32_t> order) {
  shuffled.row_order = order;
  const uint64_t bytes = rig.kernel().packed_bytes(in_turn);
  ASSERT_EQ(rig.kernel().packed_bytes(shuffled), bytes);
  PackedWeight want = rig.pack(in_turn), got = rig.pack(shuffled, 3);
  EXPECT_EQ(std::memcmp(want.get(), got.get(), bytes), 0) << in_turn.format;
  shuffled.row_order = order.first(order.size() - 1);
  EXPECT_FALSE(rig.kernel().accepts(shuffled).ok());
}

// A slice prepares the rows that the boundary gives it, and reads no others.
inline void expect_slices_to_prepare_their_own_rows(LinearRig& rig, const WeightView& weight) {
  constexpr uint32_t kSlices = 3;
  const uint32_t k_in = weight.k_in;
  PackedWeight packed = rig.pack(weight);
  for (uint32_t rows : {1u, 2u, 7u, 64u}) {
    const std::vector<float> x = random_values(5, size_t{rows} * k_in);
    Aligned want = rig.prepare(packed, x, rows);
    const uint64_t bytes = rig.kernel().prepared_bytes(packed.preparation, rows);
    Aligned got(bytes);
    for (uint32_t slice = 0; slice < kSlices; ++slice) {
      std::vector<float> own(x.size(), NAN);
      const size_t first = rows * slice / kSlices, last = rows * (slice + 1) / kSlices;
      std::copy(x.begin() + first * k_in, x.begin() + last * k_in, own.begin() + first * k_in);
      const Status status =
          rig.kernel().prepare(rig.prepare_call(packed, own, rows, got.get()), {slice, kSlices});
      ASSERT_TRUE(status.ok()) << status.message();
    }
    EXPECT_EQ(std::memcmp(want.get(), got.get(), bytes), 0) << rows << " rows";
  }
}

// An order that the host cannot carry out is refused before anything is written.
inline void expect_refusal(LinearRig& rig, const LinearJob& job, DeviceQueue queue,
                           std::vector<float>& y, std::string_view reason) {
  const std::vector<float> before = y;
  LinearJob sound = job;
  sound.epilogue = Epilogue::store;
  sound.y_dtype = DType::f32;
  const LinearJob jobs[] = {sound, job};
  const Status status = rig.kernel().run(jobs, {0, 1, 1, 0}, queue);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find(reason), std::string_view::npos) << status.message();
  EXPECT_TRUE(same_bits(y.data(), before.data(), y.size())) << reason;
}

inline void expect_orders_beyond_the_host_to_be_refused(LinearRig& rig, const WeightView& weight) {
  constexpr uint32_t kRows = 3;
  int device = 0;
  PackedWeight packed = rig.pack(weight);
  const std::vector<float> x = random_values(5, size_t{kRows} * weight.k_in);
  Aligned prepared = rig.prepare(packed, x, kRows);
  std::vector<float> y = random_values(9, size_t{kRows} * weight.n_out);
  const LinearJob sound = rig.job(packed, prepared, kRows, y);
  expect_refusal(rig, sound, &device, y, "where the queue is null");
  LinearJob halves = sound;
  halves.y_dtype = DType::bf16;
  expect_refusal(rig, halves, nullptr, y, "was asked for bf16");
  for (uint32_t number : {0u, 1u, 2u, 3u, 9u, 40u}) {
    LinearJob other = sound;
    other.packed_second = packed.get();
    other.epilogue = static_cast<Epilogue>(number);
    if (number < 32 && (rig.kernel().epilogues() >> number & 1) != 0) continue;
    expect_refusal(rig, other, nullptr, y, "has no epilogue " + std::to_string(number));
  }
  PrepareCall prepare = rig.prepare_call(packed, x, kRows, prepared.get());
  prepare.x_dtype = DType::f16;
  EXPECT_EQ(rig.kernel().prepare(prepare, {0, 1}).code(), StatusCode::unsupported);
  prepare.x_dtype = DType::f32;
  prepare.queue = &device;
  EXPECT_EQ(rig.kernel().prepare(prepare, {0, 1}).code(), StatusCode::unsupported);
  const uint32_t row = 0;
  GatherCall gather{.packed = packed.get(),
                    .n_out = weight.n_out,
                    .k_in = weight.k_in,
                    .rows = {&row, 1},
                    .out = y.data(),
                    .out_dtype = DType::f16};
  EXPECT_EQ(rig.kernel().gather(gather, {0, 1}).code(), StatusCode::unsupported);
}

// Rows of a weight, some of them twice, come back as they were packed, whatever the slices.
inline void expect_rows_to_come_back_exactly(LinearRig& rig, const WeightView& weight,
                                             const std::vector<float>& values) {
  const std::vector<uint32_t> rows = {70, 0, 15, 16, 33, 0, 70};
  PackedWeight packed = rig.pack(weight, 3);
  for (uint32_t slices : {1u, 3u, 9u}) {
    const std::vector<float> got = rig.gather(packed, rows, slices);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (uint32_t k = 0; k < weight.k_in; ++k) {
        ASSERT_EQ(got[i * weight.k_in + k], values[rows[i] * weight.k_in + k])
            << weight.format << " row " << rows[i] << " value " << k;
      }
    }
  }
}

}  // namespace tenon
