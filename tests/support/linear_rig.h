// A linear kernel under test: packs, prepares and multiplies in memory laid out as executors do.
#pragma once

#include <gtest/gtest.h>
#include <tenon/linear.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {

// Evenly distributed in [-1, 1).
inline std::vector<float> random_values(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto bits = sdk::philox({static_cast<uint32_t>(i), 0, 0, 0}, seed);
    values[i] = static_cast<float>(static_cast<double>(bits[0]) * 0x1.0p-31 - 1.0);
  }
  return values;
}

// Memory aligned to 64, as executors give it; every byte is set, none to zero.
class Aligned {
 public:
  explicit Aligned(uint64_t bytes) : memory_(bytes + 64, std::byte{0xcd}) {}
  void* get() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }

 private:
  std::vector<std::byte> memory_;
};

// One kernel and what is packed for it.
class LinearRig {
 public:
  static constexpr uint32_t kWorkers = 4;  // of the host that the plugin is made for

  LinearRig(std::string_view id, CpuFeatures isa, bool slow_bf16_dot = true) {
    host_.facts.cpu = isa;
    host_.facts.slow_bf16_dot = slow_bf16_dot;
    kernel_ = std::make_unique<PluginInstance<LinearKernel>>(id, host_);
  }
  LinearKernel& kernel() { return **kernel_; }

  Aligned pack(const WeightView& weight, uint32_t slices = 1) {
    Aligned packed(kernel().packed_bytes(weight));
    for (uint32_t i = 0; i < slices; ++i) {
      const Status status = kernel().pack(weight, packed.get(), {i, slices});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return packed;
  }
  Aligned prepare(const std::vector<float>& x, uint32_t rows, uint32_t k_in, uint32_t slices = 1) {
    Aligned prepared(kernel().prepared_bytes(rows, k_in));
    for (uint32_t i = 0; i < slices; ++i) {
      kernel().prepare(x.data(), k_in, rows, k_in, prepared.get(), {i, slices});
    }
    return prepared;
  }
  // In ranges of one part, two, three …, the last first, as different workers.
  void run(std::vector<LinearJob> jobs, uint32_t parts = 1) {
    for (uint32_t last = parts, size = 1; last > 0; ++size) {
      const uint32_t first = last > size ? last - size : 0;
      kernel().run(jobs, {first, last, parts, size % kWorkers});
      last = first;
    }
  }
  // y = x·Wᵀ of `rows` rows.
  std::vector<float> multiply(const WeightView& weight, const std::vector<float>& x, uint32_t rows,
                              uint32_t slices = 1) {
    Aligned packed = pack(weight, slices);
    Aligned prepared = prepare(x, rows, weight.k_in, slices);
    std::vector<float> y(size_t{rows} * weight.n_out, NAN);
    run({{.packed = packed.get(),
          .n_out = weight.n_out,
          .k_in = weight.k_in,
          .prepared = prepared.get(),
          .x_rows = rows,
          .y = y.data(),
          .y_stride = weight.n_out}},
        slices);
    return y;
  }

 private:
  TestHost host_;
  std::unique_ptr<PluginInstance<LinearKernel>> kernel_;
};

// x [rows, k_in] · wᵀ, w [n_out, k_in], in double precision.
inline std::vector<double> reference_product(const std::vector<float>& w, uint32_t n_out,
                                             const std::vector<float>& x, uint32_t rows,
                                             uint32_t k_in) {
  std::vector<double> y(size_t{rows} * n_out);
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t n = 0; n < n_out; ++n) {
      double sum = 0;
      for (uint32_t k = 0; k < k_in; ++k) {
        sum += double{w[size_t{n} * k_in + k]} * x[size_t{r} * k_in + k];
      }
      y[size_t{r} * n_out + n] = sum;
    }
  }
  return y;
}

inline double relative_rms(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// Epilogues store and add with a bias, in rows wider than the product: what is behind it stays.
inline void expect_bias_and_old_value_behind_the_sum(LinearRig& rig, const WeightView& weight) {
  const uint32_t stride = weight.n_out + 5;
  const std::vector<float> bias = random_values(8, weight.n_out);
  for (uint32_t rows : {1u, 30u}) {
    const std::vector<float> x = random_values(5, size_t{rows} * weight.k_in);
    const auto plain = rig.multiply(weight, x, rows);
    Aligned packed = rig.pack(weight);
    Aligned prepared = rig.prepare(x, rows, weight.k_in);
    for (Epilogue epilogue : {Epilogue::store, Epilogue::add}) {
      std::vector<float> y = random_values(9, size_t{rows} * stride);
      const std::vector<float> before = y;
      rig.run({{.packed = packed.get(),
                .n_out = weight.n_out,
                .k_in = weight.k_in,
                .prepared = prepared.get(),
                .x_rows = rows,
                .y = y.data(),
                .y_stride = stride,
                .bias = bias.data(),
                .epilogue = epilogue}},
              2);
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

// A weight whose rows stand in another order packs into the bytes of one where they stand in turn.
// `in_turn` has the rows that `shuffled`, given `order`, stands for.
inline void expect_rows_in_the_order_given(LinearRig& rig, WeightView shuffled,
                                           const WeightView& in_turn,
                                           std::span<const uint32_t> order) {
  shuffled.row_order = order;
  const uint64_t bytes = rig.kernel().packed_bytes(in_turn);
  ASSERT_EQ(rig.kernel().packed_bytes(shuffled), bytes);
  Aligned want = rig.pack(in_turn), got = rig.pack(shuffled, 3);
  EXPECT_EQ(std::memcmp(want.get(), got.get(), bytes), 0) << in_turn.format;
  shuffled.row_order = order.first(order.size() - 1);
  EXPECT_FALSE(rig.kernel().accepts(shuffled).ok());
}

// A slice prepares the rows that the boundary gives it, and reads no others. Weights that tell the
// kernel which forms of x it needs were packed before.
inline void expect_slices_to_prepare_their_own_rows(LinearRig& rig, uint32_t k_in) {
  constexpr uint32_t kSlices = 3;
  for (uint32_t rows : {1u, 2u, 7u, 64u}) {
    const std::vector<float> x = random_values(5, size_t{rows} * k_in);
    Aligned want = rig.prepare(x, rows, k_in);
    const uint64_t bytes = rig.kernel().prepared_bytes(rows, k_in);
    Aligned got(bytes);
    for (uint32_t slice = 0; slice < kSlices; ++slice) {
      std::vector<float> own(x.size(), NAN);
      const size_t first = rows * slice / kSlices, last = rows * (slice + 1) / kSlices;
      std::copy(x.begin() + first * k_in, x.begin() + last * k_in, own.begin() + first * k_in);
      rig.kernel().prepare(own.data(), k_in, rows, k_in, got.get(), {slice, kSlices});
    }
    EXPECT_EQ(std::memcmp(want.get(), got.get(), bytes), 0) << rows << " rows";
  }
}

}  // namespace tenon
