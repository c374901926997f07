// Products in bytes become scores, and scores bytes of weights (see bytes.h).
//
// Of a tile and a query the largest weight times the largest scale of V is 255 steps: V's scales go
// into the bytes. What is cut off has its share in the sum of weights, which stays as it was.
#pragma once

#include "plugins/attention/cpu/bytes.h"
#include "plugins/attention/cpu/softmax.h"

#ifdef __AVX512VNNI__

namespace tenon::attention_cpu {
namespace {

// How the weights of a tile become codes: weight · to_code, and code · unit goes with V's bytes.
// `middle` is what the byte 0 stands for, where V is shifted.
struct ByteValues {
  alignas(64) float to_code[kTileTokens];
  alignas(64) float middle[kTileTokens];
  float unit = 0;
};
// V's nibbles are made signed, and stand in the upper half of a byte.
inline constexpr float kNibbleMiddle = 8;
inline constexpr float kNibbleUnit = 1.0f / 16;

template <class E>
void prepare_values(const TileScales& scales, Span seen, ByteValues& to) {
  const bool cut = seen.low > 0 || seen.high < kTileTokens;
  F32 scale[kTileVectors];
  F32 largest = simd::set1(1e-36f);
  uint32_t broken = 0;
#pragma GCC unroll 4
  for (uint32_t v = 0; v < kTileVectors; ++v) {
    scale[v] = simd::load(scales.v_scale + v * simd::kLanes);
    if (cut) scale[v] = only_seen(scale[v], v, seen, simd::zero());
    broken |= _mm512_cmp_ps_mask(scale[v], scale[v], _CMP_UNORD_Q);
    largest = simd::max(scale[v], largest);
    if constexpr (E::kShifted) {
      const F32 least = simd::load(scales.v_least + v * simd::kLanes);
      const F32 middle = simd::fma(scale[v], simd::set1(kNibbleMiddle), least);
      simd::store(to.middle + v * simd::kLanes,
                  cut ? only_seen(middle, v, seen, simd::zero()) : middle);
    }
  }
  const float most = simd::reduce_max(largest);
  to.unit = broken != 0 ? __builtin_nanf("")
                        : most * ((E::kShifted ? kNibbleUnit : 1.0f) / kLargestWeightCode);
  const F32 factor = simd::set1(kLargestWeightCode / most);
#pragma GCC unroll 4
  for (uint32_t v = 0; v < kTileVectors; ++v) {
    simd::store(to.to_code + v * simd::kLanes, simd::mul(scale[v], factor));
  }
}

// What K's scales are for one query: a product's factor, and what is added to it.
template <class E>
[[gnu::always_inline]] inline F32 scale_product(const TileScales& scales, const ByteQuery& query,
                                                uint32_t t, const float* products) {
  const __m512i product =
      _mm512_add_epi32(_mm512_loadu_si512(products + t), _mm512_set1_epi32(query.start));
  const F32 scale = simd::mul(simd::load(scales.k_scale + t), simd::set1(query.scale));
  if constexpr (E::kShifted) {
    const F32 least = simd::mul(simd::set1(query.sum), simd::load(scales.k_least + t));
    return simd::fma(_mm512_cvtepi32_ps(product), scale, least);
  }
  return simd::mul(_mm512_cvtepi32_ps(product), scale);
}
// Products become scores, in place.
template <class E>
void scale_products(const TileScales& scales, const ByteQuery& query, float* scores) {
  for (uint32_t t = 0; t < kTileTokens; t += simd::kLanes) {
    simd::store(scores + t, scale_product<E>(scales, query, t, scores));
  }
}

// What is added before a code is cut off, by position: parts of a step in the order of bits turned
// around, so that many small weights side by side keep their sum.
struct Thresholds {
  alignas(64) float at[kTileTokens];
};
constexpr Thresholds make_thresholds() {
  Thresholds made{};
  for (uint32_t t = 0; t < kTileTokens; ++t) {
    uint32_t turned = 0;
    for (uint32_t bit = 0; bit < 6; ++bit) turned |= (t >> bit & 1) << (5 - bit);
    made.at[t] = static_cast<float>(turned) / kTileTokens;
  }
  return made;
}
inline constexpr Thresholds kThresholds = make_thresholds();

// 2^x for x <= 0, and 0 far below; fewer instructions than `exp2_nonpositive`.
[[gnu::always_inline]] inline F32 exp2_weight(F32 x) {
  x = simd::max(simd::set1(-200.0f), x);  // NaN stays
  const F32 whole = simd::round(x);
  const F32 rest = simd::sub(x, whole);
  F32 sum = simd::set1(0.0013264724984765053f);
  sum = simd::fma(sum, rest, simd::set1(0.009671512991189957f));
  sum = simd::fma(sum, rest, simd::set1(0.05550733581185341f));
  sum = simd::fma(sum, rest, simd::set1(0.24022242426872253f));
  sum = simd::fma(sum, rest, simd::set1(0.6931470036506653f));
  sum = simd::fma(sum, rest, simd::set1(1.0f));
  return simd::scale_exponent(sum, whole);
}

// Lane r of each quarter: the largest, or the sum, of the lanes of values[r].
template <class Both>
[[gnu::always_inline]] inline F32 join_lanes(const F32 (&values)[4], const Both& both) {
  const F32 front =
      both(_mm512_unpacklo_ps(values[0], values[1]), _mm512_unpackhi_ps(values[0], values[1]));
  const F32 back =
      both(_mm512_unpacklo_ps(values[2], values[3]), _mm512_unpackhi_ps(values[2], values[3]));
  const F32 quarters =
      both(_mm512_shuffle_ps(front, back, 0x44), _mm512_shuffle_ps(front, back, 0xee));
  const F32 halves = both(quarters, _mm512_shuffle_f32x4(quarters, quarters, 0x4e));
  return both(halves, _mm512_shuffle_f32x4(halves, halves, 0xb1));
}

// Softmaxes of kByteQueries queries under way, and what a tile means for their sums of V:
// keep · sums + take · products + add.
struct ByteSoftmax {
  float* maxima;
  float* weights;
  float* keep;
  float* take;
  float* add;
};
// What R queries see of a tile: `sees` has a bit for each that sees any of it.
struct ByteTile {
  const TileScales* scales;
  const ByteQuery* queries;
  const ByteValues* values[kByteQueries];
  uint32_t sees;
  Requests* requests;
  uint32_t pace;  // twice a query
};

// Scores of R queries become codes of weights, in place: 16 words, in each the entries
// 16·v + 4·l … at word 4·l + v. kProducts: they are to be scaled first, and all is seen.
template <class E, uint32_t R, bool kProducts>
[[gnu::noinline]] void weigh_in_bytes(const ByteTile& tile, const ByteSoftmax& softmax,
                                      float* scores) {
  F32 score[R][kTileVectors];
  F32 highest[4];
#pragma GCC unroll 4
  for (uint32_t r = 0; r < 4; ++r) {
    highest[r] = simd::zero();
    if (r >= R) continue;
    tile.requests->ask_in_pace(tile.pace);
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kTileVectors; ++v) {
      float* from = scores + r * kTileTokens;
      score[r][v] = kProducts
                        ? scale_product<E>(*tile.scales, tile.queries[r], v * simd::kLanes, from)
                        : simd::load(from + v * simd::kLanes);
    }
    highest[r] =
        simd::max(simd::max(score[r][0], score[r][1]), simd::max(score[r][2], score[r][3]));
  }
  const F32 found = join_lanes(highest, simd::max);
  const auto seen = static_cast<__mmask8>(tile.sees);
  const F32 before = _mm512_castps128_ps512(_mm_loadu_ps(softmax.maxima));
  const F32 raised = simd::max(found, before);
  // Lanes 0 … 3: what is kept of sums; 4 … 7: what is taken of the tile.
  const F32 factors = exp2_weight(simd::sub(_mm512_mask_blend_ps(0x00f0, before, found),
                                            _mm512_shuffle_f32x4(raised, raised, 0x00)));
  F32 sums[4];
  F32 middles[4];
#pragma GCC unroll 4
  for (uint32_t r = 0; r < 4; ++r) {
    sums[r] = middles[r] = simd::zero();
    if (r >= R) continue;
    tile.requests->ask_in_pace(tile.pace);
    const F32 maximum = _mm512_permutexvar_ps(_mm512_set1_epi32(static_cast<int>(r)), found);
    const ByteValues& values = *tile.values[kProducts ? 0 : r];
    F32 weight[kTileVectors];
    __m512i codes[kTileVectors];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kTileVectors; ++v) {
      const uint32_t at = v * simd::kLanes;
      weight[v] = exp2_weight(simd::sub(score[r][v], maximum));
      codes[v] = _mm512_cvttps_epi32(
          simd::fma(weight[v], simd::load(values.to_code + at), simd::load(kThresholds.at + at)));
      if constexpr (E::kShifted) {
        middles[r] = simd::fma(weight[v], simd::load(values.middle + at), middles[r]);
      }
    }
    sums[r] = simd::add(simd::add(weight[0], weight[1]), simd::add(weight[2], weight[3]));
    _mm512_storeu_si512(scores + r * kTileTokens,
                        _mm512_packus_epi16(_mm512_packs_epi32(codes[0], codes[1]),
                                            _mm512_packs_epi32(codes[2], codes[3])));
  }
  const __m128 keep = _mm512_castps512_ps128(factors);
  const __m128 take = _mm512_extractf32x4_ps(factors, 1);
  const __m128 sum = _mm512_castps512_ps128(join_lanes(sums, simd::add));
  const __m128 weights = _mm_loadu_ps(softmax.weights);
  _mm_storeu_ps(softmax.maxima, _mm512_castps512_ps128(_mm512_mask_blend_ps(seen, before, raised)));
  _mm_storeu_ps(
      softmax.weights,
      _mm_mask_blend_ps(seen, weights, _mm_fmadd_ps(sum, take, _mm_mul_ps(weights, keep))));
  _mm_storeu_ps(softmax.keep, keep);
  const auto unit = [&tile](uint32_t r) { return tile.values[kProducts || r >= R ? 0 : r]->unit; };
  _mm_storeu_ps(softmax.take, _mm_mul_ps(take, _mm_setr_ps(unit(0), unit(1), unit(2), unit(3))));
  if constexpr (E::kShifted) {
    const __m128 middle = _mm512_castps512_ps128(join_lanes(middles, simd::add));
    _mm_storeu_ps(softmax.add, _mm_mul_ps(middle, take));
  }
}

}  // namespace
}  // namespace tenon::attention_cpu

#endif
