// Activations as groups of 8-bit values.
#pragma once

#include "plugins/linear/int8/dot.h"

namespace tenon::int8 {
namespace {

#if defined(__AVX2__)
// Of the pairs of each word of a half of q, the sums of the first and of the second ones, times
// -32: as two numbers of 16 bits.
[[gnu::always_inline]] inline __m128i lane_starts(const int8_t* half) {
  const __m128i pairs =
      _mm_maddubs_epi16(_mm_set1_epi8(1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(half)));
  __m128i sums = _mm_add_epi16(pairs, _mm_srli_si128(pairs, 8));
  sums = _mm_add_epi16(sums, _mm_srli_si128(sums, 4));
  return _mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(sums, 5));
}

// Replaces starts by those of lanes, where the set has such.
inline void put_lane_starts(RowGroup& to) {
  const __m128i halves[2] = {lane_starts(to.q), lane_starts(to.q + kGroupValues / 2)};
  for (uint32_t half = 0; half < 2; ++half) to.half_start[half] = _mm_cvtsi128_si32(halves[half]);
  to.start[0] =
      _mm_cvtsi128_si32(_mm_add_epi16(_mm_srai_epi16(halves[0], 1), _mm_srai_epi16(halves[1], 1)));
}
#else
inline void put_lane_starts(RowGroup&) {}
#endif

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
  if constexpr (kLaneStarts) put_lane_starts(to);
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
