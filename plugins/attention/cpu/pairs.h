// Products of pairs of bf16 (vdpbf16ps): two products and sums a lane, where an FMA has one. K and
// V are taken as the cache has them, queries and weights are rounded to bf16.
//
// A score is the sum of 16 partial ones: K's rows and queries are read along their elements, 32 at
// a time, so nothing is turned. Weights go along a row's entries, so two rows of V become one of
// pairs. What a row of `out` adds up follows from what the row sees, as in product.h: of a pair of
// entries of which it sees one, the other counts as zero and is not read.
#pragma once

#include <tenon/sdk/simd.h>

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/softmax.h"
#include "plugins/attention/cpu/tile_rows.h"

namespace tenon::attention_cpu {
namespace {

// A query of `columns` floats becomes bf16, in place.
inline void round_query(float* query, uint32_t columns) {
  for (uint32_t d = 0; d < columns; d += simd::kLanes) {
    simd::store_bf16(reinterpret_cast<uint16_t*>(query) + d, simd::load(query + d));
  }
}

// Scores of one query over one tile become weights in bf16, in place: 32 words. Returns the sum of
// what they were rounded to, so that rounding makes no sum of V larger or smaller as a whole.
inline float weigh_in_pairs(float* scores, float maximum) {
  F32 weights = simd::zero();
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kTileVectors; ++v) {
    const F32 score = simd::load(scores + v * simd::kLanes);
    const F32 weight = simd::exp2_nonpositive(simd::sub(score, simd::set1(maximum)));
    uint16_t* to = reinterpret_cast<uint16_t*>(scores) + v * simd::kLanes;
    simd::store_bf16(to, weight);
    weights = simd::add(weights, simd::load_bf16(to));
  }
  return simd::reduce_add(weights);
}

#ifdef __AVX512BF16__

// Elements that one instruction multiplies.
inline constexpr uint32_t kPairElements = 2 * simd::kLanes;
// Entries and queries whose scores are made together: 16 sums, which one vector takes up.
inline constexpr uint32_t kPairEntries = 4;
inline constexpr uint32_t kPairQueries = 4;
// Entries that all queries are multiplied with while their K is in the first cache.
inline constexpr uint32_t kPairRun = 8;

// In each lane the second product is added first, each is rounded as by an FMA, and subnormals are
// zero: as Intel documents it, and as Zen 4 has it (4.8 million random lanes).
[[gnu::always_inline]] inline F32 add_pairs(F32 a, F32 b, F32 sum) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
[[gnu::always_inline]] inline __mmask32 first_elements(uint32_t count) {
  return count >= kPairElements ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

// --- scores --------------------------------------------------------------------------------------

// The sums of the lanes of four times four vectors: lane 4·i + j is that of sums[i][j]. Lanes are
// added in the same order wherever a vector stands.
[[gnu::always_inline]] inline F32 sums_of_lanes(const F32 (&sums)[4][4]) {
  F32 quarters[4];  // of sums[i]: a part of the four sums in each quarter
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; ++i) {
    const F32(&of)[4] = sums[i];
    const F32 front = simd::add(_mm512_unpacklo_ps(of[0], of[1]), _mm512_unpackhi_ps(of[0], of[1]));
    const F32 back = simd::add(_mm512_unpacklo_ps(of[2], of[3]), _mm512_unpackhi_ps(of[2], of[3]));
    quarters[i] =
        simd::add(_mm512_shuffle_ps(front, back, 0x44), _mm512_shuffle_ps(front, back, 0xee));
  }
  F32 halves[2];
#pragma GCC unroll 2
  for (uint32_t i = 0; i < 2; ++i) {
    const F32 a = quarters[2 * i];
    const F32 b = quarters[2 * i + 1];
    halves[i] = simd::add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  return simd::add(_mm512_shuffle_f32x4(halves[0], halves[1], 0x88),
                   _mm512_shuffle_f32x4(halves[0], halves[1], 0xdd));
}

// Scores of `queries` queries, kStride floats apart, with kPairEntries rows of K.
template <uint32_t kStride, uint32_t queries>
[[gnu::noinline]] void score_pairs(const float* q, const std::byte* const* rows, uint64_t offset,
                                   uint32_t dim, float* scores, Requests& requests, uint32_t pace) {
  F32 sums[kPairQueries][kPairEntries];
#pragma GCC unroll 4
  for (auto& of_query : sums) {
#pragma GCC unroll 4
    for (F32& sum : of_query) sum = simd::zero();
  }
  const std::byte* k[kPairEntries];
#pragma GCC unroll 4
  for (uint32_t t = 0; t < kPairEntries; ++t) k[t] = rows[t] + offset;
  const auto multiply = [&](const F32(&entries)[kPairEntries], uint32_t at) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < queries; ++i) {
      const F32 query = simd::load(q + i * kStride + at / 2);
#pragma GCC unroll 4
      for (uint32_t t = 0; t < kPairEntries; ++t) {
        sums[i][t] = add_pairs(query, entries[t], sums[i][t]);
      }
    }
  };
  F32 entries[kPairEntries];
  uint32_t at = 0;
  for (; at + kPairElements <= dim; at += kPairElements) {
#pragma GCC unroll 4
    for (uint32_t t = 0; t < kPairEntries; ++t) entries[t] = simd::load(k[t] + at * 2);
    requests.ask_in_pace(pace);
    multiply(entries, at);
  }
  if (at < dim) {
    requests.ask_in_pace(pace);
    const __mmask32 left = first_elements(dim - at);
#pragma GCC unroll 4
    for (uint32_t t = 0; t < kPairEntries; ++t) {
      entries[t] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(left, k[t] + at * 2));
    }
    multiply(entries, at);
  }
  const F32 all = sums_of_lanes(sums);
  _mm_storeu_ps(scores, _mm512_castps512_ps128(all));
  if constexpr (queries > 1) {
    _mm_storeu_ps(scores + kTileTokens, _mm512_extractf32x4_ps(all, 1));
  }
  if constexpr (queries > 2) {
    _mm_storeu_ps(scores + 2 * kTileTokens, _mm512_extractf32x4_ps(all, 2));
  }
  if constexpr (queries > 3) {
    _mm_storeu_ps(scores + 3 * kTileTokens, _mm512_extractf32x4_ps(all, 3));
  }
}
template <uint32_t kStride>
auto score_pairs_of(uint32_t queries) {
  constexpr decltype(&score_pairs<kStride, 1>) kAll[kPairQueries] = {
      &score_pairs<kStride, 1>, &score_pairs<kStride, 2>, &score_pairs<kStride, 3>,
      &score_pairs<kStride, 4>};
  return kAll[queries - 1];
}

// --- values --------------------------------------------------------------------------------------

// Rows of V, two as one of pairs, for `product`. `paired`: V as even and odd elements of 2·kLanes.
template <bool kPaired>
struct RowPairs {
  static constexpr uint32_t kStep = 1;
  static constexpr bool kEven = kPaired;
  const std::byte* const* rows;
  uint64_t offset;
  uint32_t dim;  // elements there are, from `offset` on
  bool first;    // of each pair are read, else zero
  bool second;
  RowPairs from(uint32_t pair) const { return {rows + 2 * pair, offset, dim, first, second}; }
  // One entry of each pair.
  RowPairs half(bool of_first) const { return {rows, offset, dim, of_first, !of_first}; }
  template <uint32_t V>
  [[gnu::always_inline]] void load(uint64_t pair, uint32_t column, F32 (&values)[V]) const {
    const std::byte* a = rows[2 * pair] + offset + column * 2;
    const std::byte* b = rows[2 * pair + 1] + offset + column * 2;
    if constexpr (kPaired) {
      const __mmask16 reads_a = first ? 0xffff : 0;
      const __mmask16 reads_b = second ? 0xffff : 0;
#pragma GCC unroll 4
      for (uint32_t v = 0; v + 1 < V; v += 2) {
        const __m512i front = _mm512_maskz_loadu_epi32(reads_a, a + v * simd::kLanes * 2);
        const __m512i back = _mm512_maskz_loadu_epi32(reads_b, b + v * simd::kLanes * 2);
        constexpr __mmask32 kOdd = 0xaaaaaaaa;
        values[v] =
            _mm512_castsi512_ps(_mm512_mask_blend_epi16(kOdd, front, _mm512_slli_epi32(back, 16)));
        values[v + 1] =
            _mm512_castsi512_ps(_mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(front, 16), back));
      }
    } else {
#pragma GCC unroll 4
      for (uint32_t v = 0; v < V; ++v) {
        const uint32_t at = column + v * simd::kLanes;
        const __mmask16 there = at < dim ? simd::first_lanes(dim - at) : 0;
        const auto words = [&](const std::byte* from, bool reads) {
          const __mmask16 mask = reads ? there : 0;
          return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + v * simd::kLanes * 2));
        };
        values[v] = _mm512_castsi512_ps(
            _mm512_or_si512(words(a, first), _mm512_slli_epi32(words(b, second), 16)));
      }
    }
  }
  template <int>
  [[gnu::always_inline]] static F32 element(F32 values) {
    return values;
  }
  [[gnu::always_inline]] static F32 accumulate(F32 weights, F32 values, F32 sum) {
    return add_pairs(weights, values, sum);
  }
};

#endif

}  // namespace
}  // namespace tenon::attention_cpu
