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
  F32 total = simd::zero();
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kGroupValues; i += simd::kLanes) {
    const F32 whole = simd::round(simd::mul(simd::load(x + i), inverse));
    total = simd::add(total, whole);
    store_int8(whole, to.q + i);
  }
  to.scale = (scaled ? largest / 127.0f : 0.0f) + simd::reduce_add(poison);
  const float sum = simd::reduce_add(total);  // exact: integers below 2^12
  const int32_t whole_sum = sum == sum ? static_cast<int32_t>(sum) : 0;
  for (uint32_t format = 0; format < 2; ++format) {
    to.start[format] = kStartBits - static_cast<int32_t>(kStoredOffset[format]) * whole_sum;
  }
  to.reserved = 0;
}

inline void prepare(const PrepareTask& task) {
  const uint32_t groups = task.k_in / kGroupValues;
  for (uint64_t r = task.first_row; r < task.last_row; ++r) {
    const float* x = task.x + r * task.x_stride;
    for (uint32_t g = 0; g < groups; ++g) {
      const uint64_t block = g / kBlockGroups;
      std::byte* to = task.prepared + (block * task.rows + r) * kRowBlockBytes;
      quantise(x + uint64_t{g} * kGroupValues, reinterpret_cast<RowGroup*>(to)[g % kBlockGroups]);
    }
  }
}

}  // namespace
}  // namespace tenon::int8
