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

// `dim` floats become codes, in place: bytes in the order of `load_quarters`, zero behind the end.
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
  auto* to = reinterpret_cast<int8_t*>(query);
  int32_t sum = 0;
  for (uint32_t d = 0; d < kMaxHeadDim; ++d) {
    sum += codes[d];
    // Of 32 elements of i4 the even ones come first.
    const uint32_t at = E::kBits == 8 ? d : d / 32 * 32 + d % 2 * 16 + d % 32 / 2;
    to[at] = static_cast<int8_t>(codes[d]);
  }
  const float usable = scale + simd::reduce_add(finite);
  return {usable, static_cast<float>(sum) * usable, E::kBits == 8 ? -128 * sum : 0};
}

// --- scores --------------------------------------------------------------------------------------

// Elements [at, at + kByteColumns) of rows 0, 4, 8 and 12: vectors of a quarter each, of i4 its
// even and its odd elements. i8 becomes unsigned. `there`: words that are read, the others are
// zero.
template <class E>
[[gnu::always_inline]] inline void load_quarters(const std::byte* const* rows, uint64_t at,
                                                 __mmask16 there, __m512i (&quarters)[4]) {
  F32 row[4];
  if constexpr (E::kBits == 8) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      row[i] = _mm512_castsi512_ps(
          _mm512_xor_si512(_mm512_maskz_loadu_epi32(there, rows[4 * i] + at), all_bytes(0x80)));
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
    const auto words = static_cast<__mmask8>(there);
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      row[i] = _mm512_castsi512_ps(_mm512_inserti64x4(
          _mm512_castsi256_si512(_mm256_maskz_loadu_epi32(words, rows[8 * i] + at)),
          _mm256_maskz_loadu_epi32(words, rows[8 * i + 4] + at), 1));
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

// Adds the products of a query's 16 codes, kAt bytes behind `query`, with vectors of four rows.
template <uint32_t kAt>
[[gnu::always_inline]] inline void add_codes(__m512i& first, __m512i& second, __m512i of_first,
                                             __m512i of_second, const float* query) {
  __m512i code;
  asm volatile("vbroadcasti32x4 %c4(%3), %2\n\tvpdpbusd %2, %5, %0\n\tvpdpbusd %2, %6, %1"
               : "+v"(first), "+v"(second), "=&v"(code)
               : "r"(query), "i"(kAt), "v"(of_first), "v"(of_second));
}

// The words in which the scales of a tile's rows stand, and what i4 has beside them.
struct ScaleWords {
  alignas(64) uint32_t k[kTileTokens];
  alignas(64) uint32_t v[kTileTokens];
};
// Bytes from a row's beginning to that word.
template <class E>
constexpr uint64_t scale_word_at(uint32_t dim) {
  return kv_element_bytes(E::kType, dim) - (E::kShifted ? 0 : 2);
}
[[gnu::always_inline]] inline uint32_t read_word(const std::byte* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return word;
}

// What R queries are multiplied with: kByteRows rows of one head of K.
struct ByteRows {
  const std::byte* const* k;  // [kByteRows]
  const std::byte* const* v;
  uint64_t k_offset;
  uint32_t k_dim;
  uint64_t k_scale_at;
  uint64_t v_scale_at;
  uint32_t* k_words;  // where the scales' words go
  uint32_t* v_words;
  Requests* requests;
  uint32_t pace;  // for each kByteColumns of two times four rows
};
inline constexpr uint32_t kPairsOfRows = kByteRows / 8;  // of two times four rows
// Scores before they are scaled, kTileTokens apart. Words of scales are read beside, where they are
// asked for: rows of K are in the first cache then, and those of V come into it.
template <class E, uint32_t kStride, uint32_t R>
[[gnu::noinline]] void score_bytes(const float* codes, const ByteRows& rows, bool with_scales,
                                   float* scores) {
  const std::byte* const* k = rows.k;
  const std::byte* const* v = rows.v;
  uint32_t* k_words = rows.k_words;
  uint32_t* v_words = rows.v_words;
  const uint64_t k_offset = rows.k_offset;
  const uint64_t k_at = rows.k_scale_at;
  const uint64_t v_at = rows.v_scale_at;
  const uint32_t dim = rows.k_dim;
  const uint32_t words = words_of<E>(dim);
  __m512i pairs[2][R];  // two lanes of each quarter are of one row, two of the other
  each<kPairsOfRows>([&](auto pair) __attribute__((always_inline)) {
    constexpr uint32_t kFirst = 2 * pair.kValue;
    __m512i sums[2][R];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; ++r) sums[0][r] = sums[1][r] = _mm512_setzero_si512();
    uint32_t d = 0;
    do {
      asm volatile("" ::: "memory");  // pointers are read where they are used, not kept
      rows.requests->ask_in_pace(rows.pace);
      const uint32_t word = d * E::kBits / 32;
      const __mmask16 there = simd::first_lanes(words - word);
      const float* query = codes + d / 4;
      __m512i quarters[2][4];
      load_quarters<E>(k + kFirst, k_offset + word * 4, there, quarters[0]);
      load_quarters<E>(k + kFirst + 1, k_offset + word * 4, there, quarters[1]);
      each<4>([&](auto j) __attribute__((always_inline)) {
        each<R>([&](auto r) __attribute__((always_inline)) {
          add_codes<(r.kValue * kStride + j.kValue * 4) * 4>(sums[0][r.kValue], sums[1][r.kValue],
                                                             quarters[0][j.kValue],
                                                             quarters[1][j.kValue], query);
        });
      });
      d += kByteColumns;
    } while (d < dim);
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; ++r) {
      pairs[pair.kValue][r] = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0][r], sums[1][r]),
                                               _mm512_unpackhi_epi32(sums[0][r], sums[1][r]));
    }
    asm volatile("" ::: "memory");
    if (!with_scales) return;
#pragma GCC unroll 8
    for (uint32_t i = 8 * pair.kValue; i < 8 * pair.kValue + 8; ++i) {
      k_words[i] = read_word(k[i] + k_at);
      v_words[i] = read_word(v[i] + v_at);
    }
  });
#pragma GCC unroll 4
  for (uint32_t r = 0; r < R; ++r) {
    _mm512_storeu_si512(scores + r * kTileTokens,
                        _mm512_add_epi32(_mm512_unpacklo_epi64(pairs[0][r], pairs[1][r]),
                                         _mm512_unpackhi_epi64(pairs[0][r], pairs[1][r])));
  }
}

}  // namespace
}  // namespace tenon::attention_cpu

#endif
