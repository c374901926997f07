// Products of bytes (vpdpbusd): four products and sums a lane, where an FMA has one. K and V are
// taken as the cache has them, i8 or i4. Queries are rounded to signed bytes, by a scale of their
// own each; weights to unsigned ones, by a scale of their own a tile.
//
// Sums of products are whole numbers, so their order is free: a score is made from 16 rows of K
// that are turned in registers, values four rows of V at a time. A tile's sums become f32 in one
// step. Of entries that a query does not see the weight is the byte 0.
#pragma once

#include <tenon/sdk/simd.h>

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_rows.h"
#include "plugins/attention/cpu/kv_tile.h"
#include "plugins/attention/cpu/product.h"
#include "plugins/attention/cpu/tile_rows.h"

#ifdef __AVX512VNNI__

namespace tenon::attention_cpu {
namespace {

// Queries of one product.
inline constexpr uint32_t kByteQueries = 4;
// Elements that are worked on together: a vector of i8, half of one of i4.
inline constexpr uint32_t kByteColumns = 64;
// Rows of K that are scored together.
inline constexpr uint32_t kByteRows = 16;
// What a query's largest element and a tile's largest weight become.
inline constexpr float kLargestQueryCode = 127;
inline constexpr float kLargestWeightCode = 255;

// sum += the products of each four neighbours, the first ones unsigned. An instruction, as GCC 12
// spills the sums of a loop that has the intrinsic.
[[gnu::always_inline]] inline void add_products(__m512i& sum, __m512i bytes, __m512i signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
}
[[gnu::always_inline]] inline __m512i as_integers(F32 words) {
  return _mm512_castps_si512(words);
}
[[gnu::always_inline]] inline __m512i all_bytes(uint8_t byte) {
  return _mm512_set1_epi8(static_cast<char>(byte));
}

// --- queries -------------------------------------------------------------------------------------

// A query is about code · scale; `sum` is that of all codes · scale. Products with K's bytes of i8,
// which are made unsigned, start from `start`.
struct ByteQuery {
  float scale;
  float sum;
  int32_t start;
};

// `dim` floats become codes, in place: bytes in the order of `load_quarters`, zero after the end.
template <class E>
ByteQuery make_codes(float* query, uint32_t dim) {
  F32 largest = simd::zero();
  F32 finite = simd::zero();  // NaN in lanes where something is not
  for (uint32_t d = 0; d < dim; d += simd::kLanes) {
    const F32 value = simd::load_first(query + d, dim - d);
    largest = simd::max(simd::max(value, simd::sub(simd::zero(), value)), largest);
    finite = simd::add(finite, simd::sub(value, value));
  }
  const float scale = simd::reduce_max(largest) / kLargestQueryCode;
  const F32 factor = simd::set1(scale > 1e-36f ? 1.0f / scale : 0.0f);
  const F32 most = simd::set1(kLargestQueryCode);
  alignas(64) int32_t codes[kMaxHeadDim] = {};
  for (uint32_t d = 0; d < dim; d += simd::kLanes) {
    const F32 whole = simd::round(simd::mul(simd::load_first(query + d, dim - d), factor));
    const F32 within = simd::max(simd::min(whole, most), simd::sub(simd::zero(), most));
    _mm512_store_si512(codes + d, _mm512_cvtps_epi32(within));
  }
  auto* to = reinterpret_cast<__m128i*>(query);
  __m512i sums = _mm512_setzero_si512();
  for (uint32_t d = 0; d < kMaxHeadDim; d += 2 * simd::kLanes, to += 2) {
    const __m512i words[2] = {_mm512_load_si512(codes + d),
                              _mm512_load_si512(codes + d + simd::kLanes)};
    sums = _mm512_add_epi32(sums, _mm512_add_epi32(words[0], words[1]));
    __m128i front = _mm512_cvtepi32_epi8(words[0]);
    __m128i back = _mm512_cvtepi32_epi8(words[1]);
    if constexpr (E::kBits == 4) {
      // Of 32 elements the even ones come first.
      const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
      const __m128i halves[2] = {_mm_shuffle_epi8(front, order), _mm_shuffle_epi8(back, order)};
      front = _mm_unpacklo_epi64(halves[0], halves[1]);
      back = _mm_unpackhi_epi64(halves[0], halves[1]);
    }
    _mm_storeu_si128(to, front);
    _mm_storeu_si128(to + 1, back);
  }
  const int32_t sum = _mm512_reduce_add_epi32(sums);
  const float usable = scale + simd::reduce_add(finite);
  return {usable, static_cast<float>(sum) * usable, E::kBits == 8 ? -128 * sum : 0};
}

// --- scores --------------------------------------------------------------------------------------

// Elements [at, at + kByteColumns) of rows 0, 4, 8 and 12: vectors of a quarter each, of i4 its
// even and its odd elements. i8 becomes unsigned. kWhole: all are there; otherwise `there` are the
// words that are read, the others are zero.
template <class E, bool kWhole>
[[gnu::always_inline]] inline void load_quarters(const std::byte* const* rows, uint64_t at,
                                                 __mmask16 there, __m512i (&quarters)[4]) {
  F32 row[4];
  if constexpr (E::kBits == 8) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const std::byte* from = rows[4 * i] + at;
      const __m512i bytes =
          kWhole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(there, from);
      row[i] = _mm512_castsi512_ps(_mm512_xor_si512(bytes, all_bytes(0x80)));
    }
    const F32 front[2] = {_mm512_shuffle_f32x4(row[0], row[1], 0x44),
                          _mm512_shuffle_f32x4(row[2], row[3], 0x44)};
    const F32 back[2] = {_mm512_shuffle_f32x4(row[0], row[1], 0xee),
                         _mm512_shuffle_f32x4(row[2], row[3], 0xee)};
    quarters[0] = as_integers(_mm512_shuffle_f32x4(front[0], front[1], 0x88));
    quarters[1] = as_integers(_mm512_shuffle_f32x4(front[0], front[1], 0xdd));
    quarters[2] = as_integers(_mm512_shuffle_f32x4(back[0], back[1], 0x88));
    quarters[3] = as_integers(_mm512_shuffle_f32x4(back[0], back[1], 0xdd));
  } else {
    const auto half = [&](uint32_t i) __attribute__((always_inline)) {
      const auto* from = reinterpret_cast<const __m256i*>(rows[i] + at);
      return kWhole ? _mm256_loadu_si256(from)
                    : _mm256_maskz_loadu_epi32(static_cast<__mmask8>(there), from);
    };
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      row[i] = _mm512_castsi512_ps(
          _mm512_inserti64x4(_mm512_castsi256_si512(half(8 * i)), half(8 * i + 4), 1));
    }
    const __m512i bytes[2] = {as_integers(_mm512_shuffle_f32x4(row[0], row[1], 0x88)),
                              as_integers(_mm512_shuffle_f32x4(row[0], row[1], 0xdd))};
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      quarters[2 * i] = _mm512_and_si512(bytes[i], all_bytes(0x0f));
      quarters[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi32(bytes[i], 4), all_bytes(0x0f));
    }
  }
}

// Bytes from a row's beginning to the word in which its scale stands: with the least value of i4,
// or in the upper half.
template <class E>
constexpr uint64_t scale_word_at(uint32_t dim) {
  return kv_element_bytes(E::kType, dim) - (E::kShifted ? 0 : 2);
}
// The words `at` bytes into 16 rows.
[[gnu::always_inline]] inline __m512i read_words(const std::byte* const* rows, uint64_t at) {
  const auto four = [&](uint32_t i) __attribute__((always_inline)) {
    const auto word = [&](uint32_t j) __attribute__((always_inline)) {
      return _mm_loadu_si32(rows[i + j] + at);
    };
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(word(0), word(1)),
                              _mm_unpacklo_epi32(word(2), word(3)));
  };
  __m512i words = _mm512_castsi128_si512(four(0));
  words = _mm512_inserti32x4(words, four(4), 1);
  words = _mm512_inserti32x4(words, four(8), 2);
  return _mm512_inserti32x4(words, four(12), 3);
}
// Scales of 16 rows, and the least values of i4.
template <class E>
[[gnu::always_inline]] inline void read_scales(const std::byte* const* rows, uint64_t at,
                                               float* scale, float* least) {
  const __m512i words = read_words(rows, at);
  const __m512i upper = _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  if constexpr (E::kShifted) {
    _mm512_store_si512(scale, _mm512_slli_epi32(words, 16));
    _mm512_store_si512(least, upper);
  } else {
    _mm512_store_si512(scale, upper);
  }
}

// What R queries are multiplied with: a tile of one head of K.
struct ByteRows {
  const std::byte* const* k;  // [kTileTokens]
  const std::byte* const* v;
  uint64_t k_offset;
  uint32_t k_dim;
  uint64_t k_scale_at;
  uint64_t v_scale_at;
  TileScales* scales;
  Requests* requests;
  uint32_t pace;  // for each kByteColumns of half of kByteRows rows
};
// Scores before they are scaled, kTileTokens apart. Elements in the outer loop, so that a query's
// codes stay in registers; scales with the last of them, so that lines of K are not all read at
// once. kWhole: `k_dim` is a multiple of kByteColumns.
template <class E, uint32_t kStride, uint32_t R, bool kWhole>
[[gnu::noinline]] void score_bytes(const float* codes, const ByteRows& rows, bool with_scales,
                                   float* scores) {
  const uint32_t words = words_of<E>(rows.k_dim);
  for (uint32_t d = 0; d < rows.k_dim; d += kByteColumns) {
    const uint32_t word = d * E::kBits / 32;
    const __mmask16 there = simd::first_lanes(words - word);
    const uint64_t at = rows.k_offset + word * 4;
    __m512i code[R][4];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (uint32_t j = 0; j < 4; ++j) {
        code[r][j] = _mm512_broadcast_i32x4(
            _mm_load_si128(reinterpret_cast<const __m128i*>(codes + r * kStride + d / 4 + j * 4)));
      }
    }
    for (uint32_t t = 0; t < kTileTokens; t += kByteRows) {
      __m512i pairs[2][R];
      each<2>([&](auto pair) __attribute__((always_inline)) {
        rows.requests->ask_in_pace(rows.pace);
        __m512i sums[2][R];
        each<2>([&](auto i) __attribute__((always_inline)) {
          __m512i quarters[4];
          load_quarters<E, kWhole>(rows.k + t + 2 * pair.kValue + i.kValue, at, there, quarters);
#pragma GCC unroll 4
          for (uint32_t r = 0; r < R; ++r) sums[i.kValue][r] = _mm512_setzero_si512();
#pragma GCC unroll 4
          for (uint32_t j = 0; j < 4; ++j) {
#pragma GCC unroll 4
            for (uint32_t r = 0; r < R; ++r) {
              add_products(sums[i.kValue][r], quarters[j], code[r][j]);
            }
          }
        });
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; ++r) {
          pairs[pair.kValue][r] = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0][r], sums[1][r]),
                                                   _mm512_unpackhi_epi32(sums[0][r], sums[1][r]));
        }
      });
#pragma GCC unroll 4
      for (uint32_t r = 0; r < R; ++r) {
        __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(pairs[0][r], pairs[1][r]),
                                       _mm512_unpackhi_epi64(pairs[0][r], pairs[1][r]));
        float* to = scores + r * kTileTokens + t;
        if (d > 0) sum = _mm512_add_epi32(sum, _mm512_loadu_si512(to));
        _mm512_storeu_si512(to, sum);
      }
      if (d + kByteColumns < rows.k_dim || !with_scales) continue;
      read_scales<E>(rows.k + t, rows.k_scale_at, rows.scales->k_scale + t,
                     rows.scales->k_least + t);
      read_scales<E>(rows.v + t, rows.v_scale_at, rows.scales->v_scale + t,
                     rows.scales->v_least + t);
    }
  }
}

}  // namespace
}  // namespace tenon::attention_cpu

#endif
