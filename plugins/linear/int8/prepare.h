// Activations as groups of 8-bit values.
#pragma once

#include "plugins/linear/int8/dot.h"

namespace tenon::int8 {
namespace {

// x [32] as q · scale with |q| <= 127. A value that is not a number, or infinite, makes the scale
// NaN and with it every product; values too small to be scaled become zero.
inline void quantise(const float* x, RowGroup& to) {
  F32 most = simd::zero();
  F32 poison = simd::zero();
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kGroupValues; i += simd::kLanes) {
    const F32 value = simd::load(x + i);
    most = simd::max(most, simd::max(value, simd::sub(simd::zero(), value)));
    poison = simd::fma(value, simd::zero(), poison);
  }
  const float largest = simd::reduce_max(most);
  const bool scaled = largest > 1e-35f;
  const F32 inverse = simd::set1(scaled ? 127.0f / largest : 0.0f);
  F32 totals[2] = {simd::zero(), simd::zero()};
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kGroupValues; i += simd::kLanes) {
    const F32 whole = simd::round(simd::mul(simd::load(x + i), inverse));
    totals[i / 16] = simd::add(totals[i / 16], whole);
    store_int8(whole, to.q + i);
  }
  to.scale = (scaled ? largest / 127.0f : 0.0f) + simd::reduce_add(poison);
  int32_t sums[2];
  for (uint32_t half = 0; half < 2; ++half) {
    const float sum = simd::reduce_add(totals[half]);  // exact: integers below 2^11
    sums[half] = sum == sum ? static_cast<int32_t>(sum) : 0;
    to.half_start[half] = kStartBits - 32 * sums[half];
    to.half_sum[half] = static_cast<float>(sums[half]) * to.scale;
  }
  for (uint32_t format = 0; format < 2; ++format) {
    to.start[format] =
        kStartBits - static_cast<int32_t>(kStoredOffset[format]) * (sums[0] + sums[1]);
  }
  to.sum = static_cast<float>(sums[0] + sums[1]) * to.scale;
}

inline void prepare(const PrepareTask& task) {
  const uint32_t groups = task.k_in / kGroupValues;
  for (uint64_t r = task.first_row; r < task.last_row; ++r) {
    const float* x = task.x_row(r);
    for (uint32_t g = 0; g < groups; ++g) {
      const uint64_t block = g / kBlockGroups;
      std::byte* to = task.prepared + (block * task.rows + r) * kRowBlockBytes;
      const float* from = x + uint64_t{g} * kGroupValues;
      float ordered[kGroupValues];
      if (task.order != nullptr) {
        const int32_t* order = task.order + uint64_t{g} * kGroupValues;
        for (uint32_t i = 0; i < kGroupValues; ++i) ordered[i] = x[order[i]];
        from = ordered;
      }
      quantise(from, reinterpret_cast<RowGroup*>(to)[g % kBlockGroups]);
    }
  }
}

}  // namespace
}  // namespace tenon::int8
