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

#include "tests/support/closeness.h"
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

// A packed weight, and how activations must be prepared for it.
struct PackedWeight {
  Aligned memory;
  Preparation preparation;
  uint32_t n_out;
  void* get() { return memory.get(); }
};

// A bound kernel and what is packed for it.
class LinearRig {
 public:
  static constexpr uint32_t kWorkers = 4;

  LinearRig(std::string_view id, CpuFeatures isa, bool slow_bf16_dot = true) {
    host_.facts.cpu = isa;
    host_.facts.slow_bf16_dot = slow_bf16_dot;
    kernel_ = std::make_unique<PluginInstance<LinearKernel>>(id, host_);
    const PluginDescriptor* plugin = find_descriptor(id);
    for (const Fact& fact : std::span(plugin->provides, plugin->provide_count)) {
      if (fact.key == "numerics.rows") batch_invariant_ = fact.words == "invariant";
    }
    const Status status = kernel().bind({2048, kWorkers, DType::f32, DType::f32, Space()});
    EXPECT_TRUE(status.ok()) << status.message();
  }
  LinearKernel& kernel() { return **kernel_; }
  // Null where the kernel offers nothing.
  const GateFinish* gate_finish() const {
    return static_cast<const GateFinish*>(kernel_->extension(kGateFinish));
  }
  // Whether a row's bits are its own, whatever is computed in the same batch.
  bool batch_invariant() const { return batch_invariant_; }

  PackedWeight pack(const WeightView& weight, uint32_t slices = 1) {
    PackedWeight packed{Aligned(kernel().packed_bytes(weight)), kernel().preparation(weight),
                        weight.n_out};
    for (uint32_t i = 0; i < slices; ++i) {
      const Status status = kernel().pack(weight, packed.get(), {i, slices});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return packed;
  }
  // x [rows, k_in] for this weight, and for all that name the same preparation.
  Aligned prepare(PackedWeight& weight, const std::vector<float>& x, uint32_t rows,
                  uint32_t slices = 1) {
    Aligned prepared(kernel().prepared_bytes(weight.preparation, rows));
    for (uint32_t i = 0; i < slices; ++i) {
      const Status status =
          kernel().prepare(prepare_call(weight, x, rows, prepared.get()), {i, slices});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return prepared;
  }
  PrepareCall prepare_call(PackedWeight& weight, const std::vector<float>& x, uint32_t rows,
                           void* prepared) {
    return {.preparation = weight.preparation,
            .packed = weight.get(),
            .x = x.data(),
            .x_stride = weight.preparation.k_in,
            .rows = rows,
            .prepared = prepared};
  }
  // What all of x [rows, k_in] makes; the members that a test is about are its own to set.
  LinearJob job(PackedWeight& weight, Aligned& prepared, uint32_t rows, std::vector<float>& y) {
    return {.packed = weight.get(),
            .n_out = weight.n_out,
            .k_in = weight.preparation.k_in,
            .prepared = prepared.get(),
            .x_rows = rows,
            .y = y.data(),
            .y_stride = weight.n_out};
  }
  // In ranges of one part, two, three …, the last first, as different workers.
  void run(const std::vector<LinearJob>& jobs, uint32_t parts = 1) {
    for (uint32_t last = parts, size = 1; last > 0; ++size) {
      const uint32_t first = last > size ? last - size : 0;
      const Status status = kernel().run(jobs, {first, last, parts, size % kWorkers}, nullptr);
      EXPECT_TRUE(status.ok()) << status.message();
      last = first;
    }
  }
  // Rows of the weight as f32 [rows, k_in].
  std::vector<float> gather(PackedWeight& weight, const std::vector<uint32_t>& rows,
                            uint32_t slices = 1) {
    std::vector<float> out(rows.size() * weight.preparation.k_in, NAN);
    for (uint32_t i = 0; i < slices; ++i) {
      const Status status = kernel().gather({.packed = weight.get(),
                                             .n_out = weight.n_out,
                                             .k_in = weight.preparation.k_in,
                                             .rows = rows,
                                             .out = out.data(),
                                             .out_stride = weight.preparation.k_in},
                                            {i, slices});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return out;
  }
  // y = x·Wᵀ of `rows` rows.
  std::vector<float> multiply(const WeightView& weight, const std::vector<float>& x, uint32_t rows,
                              uint32_t slices = 1) {
    PackedWeight packed = pack(weight, slices);
    Aligned prepared = prepare(packed, x, rows, slices);
    std::vector<float> y(size_t{rows} * weight.n_out, NAN);
    run({job(packed, prepared, rows, y)}, slices);
    return y;
  }

 private:
  bool batch_invariant_ = false;
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

}  // namespace tenon
