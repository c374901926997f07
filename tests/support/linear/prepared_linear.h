// Linear kernels whose activations are prepared as the weight says, in plain loops: columns in the
// order of their activations (act-order), and rows of int8 with a scale that the checkpoint holds.
//
// Either takes weights of f32 with one part more, and those without it as they are.
#pragma once

#include <tenon/linear.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/linear/plain_linear.h"

namespace tenon::test {

// Packed bytes: a header of `header_bytes`, then what PlainLinear packs of `inner`.
class HeadedLinear : public ForwardingLinear {
 public:
  HeadedLinear() : ForwardingLinear(plain_) {}
  Status accepts(const WeightView& weight) const noexcept override {
    return to_.accepts(first_part_of(weight));
  }
  uint64_t packed_bytes(const WeightView& weight) const noexcept override {
    return header_bytes(weight.k_in) + to_.packed_bytes(weight);
  }
  Status gather(const GatherCall& call, Slice slice) noexcept override {
    GatherCall inner = call;
    inner.packed = behind_header(call.packed, call.k_in);
    return to_.gather(inner, slice);
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    for (LinearJob job : jobs) {
      job.packed = behind_header(job.packed, job.k_in);
      if (job.packed_second != nullptr) {
        job.packed_second = behind_header(job.packed_second, job.k_in);
      }
      Status status = to_.run({&job, 1}, range, queue);
      if (!status.ok()) return status;
    }
    return {};
  }

 protected:
  ~HeadedLinear() = default;
  static uint64_t header_bytes(uint32_t k_in) { return (uint64_t{k_in} * 4 + 63) / 64 * 64; }
  static const void* behind_header(const void* packed, uint32_t k_in) {
    return static_cast<const std::byte*>(packed) + header_bytes(k_in);
  }
  static WeightView first_part_of(WeightView weight) {
    weight.parts = weight.parts.first(1);
    return weight;
  }
  // x as `change` leaves each row of it, prepared as plain loops do.
  template <typename Change>
  Status prepare_changed(const PrepareCall& call, Slice slice, Change&& change) noexcept {
    const uint32_t k_in = call.preparation.k_in;
    std::vector<float> x(uint64_t{call.rows} * k_in);
    const Share mine = share_of(call.rows, slice);
    for (uint64_t row = mine.first; row < mine.last; ++row) {
      change(static_cast<const float*>(call.x) + row * call.x_stride, &x[row * k_in]);
    }
    PrepareCall inner = call;
    inner.x = x.data();
    inner.x_stride = k_in;
    return to_.prepare(inner, slice);
  }

 private:
  PlainLinear plain_;
};

// The second part, i32 [k_in], says which column of W and which value of x stand at each place.
class ActOrderLinear final : public HeadedLinear {
 public:
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    const std::vector<int32_t> order = order_of(weight);
    if (slice.index == 0) std::memcpy(packed, order.data(), order.size() * sizeof(int32_t));
    const std::vector<float> source = values_of(weight);
    auto* to = static_cast<float*>(const_cast<void*>(behind_header(packed, weight.k_in)));
    const Share mine = share_of(weight.n_out, slice);
    for (uint64_t n = mine.first; n < mine.last; ++n) {
      for (uint64_t k = 0; k < weight.k_in; ++k) {
        to[n * weight.k_in + k] = source[n * weight.k_in + static_cast<uint64_t>(order[k])];
      }
    }
    return {};
  }
  // FNV-1a over the order.
  Preparation preparation(const WeightView& weight) const noexcept override {
    if (weight.parts.size() < 2) return {0, weight.k_in};
    uint64_t key = 0xcbf29ce484222325u;
    for (int32_t column : order_of(weight)) {
      key = (key ^ static_cast<uint32_t>(column)) * 0x100000001b3u;
    }
    return {key | 1, weight.k_in};
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    const auto* order = static_cast<const int32_t*>(call.packed);
    if (slice.index == 0) ++prepared;
    return prepare_changed(call, slice, [&](const float* from, float* to) {
      for (uint32_t k = 0; k < call.preparation.k_in; ++k) to[k] = from[order[k]];
    });
  }
  std::string_view numerics() const noexcept override { return "act_order"; }

  std::atomic<int> prepared = 0;  // calls, counted by their first slice

 private:
  static std::vector<int32_t> order_of(const WeightView& weight) {
    std::vector<int32_t> order(weight.k_in);
    std::iota(order.begin(), order.end(), 0);
    if (weight.parts.size() > 1) {
      std::memcpy(order.data(), weight.parts[1].data, order.size() * sizeof(int32_t));
    }
    return order;
  }
  std::vector<float> values_of(const WeightView& weight) {
    std::vector<float> values(uint64_t{weight.n_out} * weight.k_in);
    static_cast<void>(to_.pack(first_part_of(weight), values.data(), {0, 1}));
    return values;
  }
};

// The second part, one f32, is the scale that x is rounded with: x = q · scale, |q| <= 127.
class StaticScaleLinear final : public HeadedLinear {
 public:
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    const float scale = scale_of(weight);
    if (slice.index == 0) std::memcpy(packed, &scale, sizeof(scale));
    auto* to = const_cast<void*>(behind_header(packed, weight.k_in));
    return to_.pack(first_part_of(weight), to, slice);
  }
  Preparation preparation(const WeightView& weight) const noexcept override {
    const float scale = scale_of(weight);
    uint32_t bits;
    std::memcpy(&bits, &scale, sizeof(bits));
    return {bits, weight.k_in};
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    const float scale = *static_cast<const float*>(call.packed);
    if (slice.index == 0) ++prepared;
    return prepare_changed(call, slice, [&](const float* from, float* to) {
      for (uint32_t k = 0; k < call.preparation.k_in; ++k) to[k] = rounded(from[k], scale);
    });
  }
  std::string_view numerics() const noexcept override { return "static_scale"; }

  static float rounded(float x, float scale) {
    return scale == 0 ? x : std::clamp(std::nearbyint(x / scale), -127.0f, 127.0f) * scale;
  }
  std::atomic<int> prepared = 0;  // calls, counted by their first slice

 private:
  static float scale_of(const WeightView& weight) {
    return weight.parts.size() < 2 ? 0 : *static_cast<const float*>(weight.parts[1].data);
  }
};

}  // namespace tenon::test
