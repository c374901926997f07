// Bytes of weights times bytes of V (see bytes.h): sums of a tile, that those of a range take up.
#pragma once

#include "plugins/attention/cpu/byte_weights.h"
#include "plugins/attention/cpu/bytes.h"

#ifdef __AVX512VNNI__

namespace tenon::attention_cpu {
namespace {

// Which words of two vectors stand side by side: 0 … 15 are of rows 0 and 1, 16 … 31 of rows
// 2 and 3. A constant of the library: GCC 12 makes a local one anew wherever it is read.
struct WordOrder {
  alignas(64) uint16_t at[32];
};
constexpr WordOrder make_word_order(uint32_t begin) {
  WordOrder made{};
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t word = begin + i % 8 + (i < 8 ? 0 : 32);
    made.at[2 * i] = static_cast<uint16_t>(word);
    made.at[2 * i + 1] = static_cast<uint16_t>(word + 16);
  }
  return made;
}
inline constexpr WordOrder kWordOrders[2] = {make_word_order(0), make_word_order(8)};

// Four rows of V, kByteColumns elements of them: words of four entries. `there`: bytes that are
// read, the others count as zero.
template <class E, bool kWhole>
[[gnu::always_inline]] inline void load_values(const std::byte* const* rows, uint64_t offset,
                                               __mmask64 there, __m512i (&values)[4]) {
  if constexpr (E::kBits == 8) {
    __m512i row[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      row[i] = kWhole ? _mm512_loadu_si512(rows[i] + offset)
                      : _mm512_maskz_loadu_epi8(there, rows[i] + offset);
    }
    const __m512i front[2] = {_mm512_unpacklo_epi8(row[0], row[1]),
                              _mm512_unpacklo_epi8(row[2], row[3])};
    const __m512i back[2] = {_mm512_unpackhi_epi8(row[0], row[1]),
                             _mm512_unpackhi_epi8(row[2], row[3])};
    values[0] = _mm512_unpacklo_epi16(front[0], front[1]);
    values[1] = _mm512_unpackhi_epi16(front[0], front[1]);
    values[2] = _mm512_unpacklo_epi16(back[0], back[1]);
    values[3] = _mm512_unpackhi_epi16(back[0], back[1]);
  } else {
    const auto half = [&](uint32_t i) __attribute__((always_inline)) {
      const auto* from = reinterpret_cast<const __m256i*>(rows[i] + offset);
      return kWhole ? _mm256_loadu_si256(from)
                    : _mm256_maskz_loadu_epi8(static_cast<__mmask32>(there), from);
    };
    const __m512i first = _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(2), 1);
    const __m512i second = _mm512_inserti64x4(_mm512_castsi256_si512(half(1)), half(3), 1);
    const __m512i low = _mm512_unpacklo_epi8(first, second);   // bytes 0 … 7, 16 … 23
    const __m512i high = _mm512_unpackhi_epi8(first, second);  // 8 … 15, 24 … 31
    const __m512i bytes[2] = {
        _mm512_permutex2var_epi16(low, _mm512_load_si512(kWordOrders[0].at), high),
        _mm512_permutex2var_epi16(low, _mm512_load_si512(kWordOrders[1].at), high)};
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      // (byte ^ 0x88) & 0xf0, the lower nibbles moved up first.
      constexpr int kXorAnd = 0x28;
      const __m512i flip = all_bytes(0x88);
      const __m512i upper = all_bytes(0xf0);
      values[2 * i] =
          _mm512_ternarylogic_epi32(_mm512_slli_epi32(bytes[i], 4), flip, upper, kXorAnd);
      values[2 * i + 1] = _mm512_ternarylogic_epi32(bytes[i], flip, upper, kXorAnd);
    }
  }
}

// kByteColumns of a tile of V; `there`: the bytes of them that a row has.
struct ByteColumns {
  const std::byte* const* rows;
  uint64_t offset;
  __mmask64 there;
  Requests* requests;
  uint32_t pace;  // for each four rows
};
// That many sums of R queries take up the tile; `sees` as in ByteTile.
template <class E, uint32_t R, bool kWhole>
[[gnu::noinline]] void add_values_in_bytes(const float* codes, const ByteColumns& columns,
                                           uint32_t sees, const ByteSoftmax& softmax, float* sums,
                                           uint64_t stride) {
  __m512i products[R][4];
#pragma GCC unroll 4
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; ++v) products[r][v] = _mm512_setzero_si512();
  }
  for (uint32_t group = 0; group < kTileTokens / 4; ++group) {
    __m512i values[4];
    load_values<E, kWhole>(columns.rows + 4 * group, columns.offset, columns.there, values);
    columns.requests->ask_in_pace(columns.pace);
    const float* word = codes + group % 4 * 4 + group / 4;
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; ++r) {
      const __m512i weights = as_integers(simd::set1(word[r * kTileTokens]));
#pragma GCC unroll 4
      for (uint32_t v = 0; v < 4; ++v) {
        add_products(products[r][v], weights, values[v]);
      }
    }
  }
#pragma GCC unroll 4
  for (uint32_t r = 0; r < R; ++r) {
    if ((sees >> r & 1) == 0) continue;
    float* to = sums + r * stride;
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; ++v) {
      F32 before = simd::load(to + v * simd::kLanes);
      const F32 keep = simd::set1(softmax.keep[r]);
      before = E::kShifted ? simd::fma(before, keep, simd::set1(softmax.add[r]))
                           : simd::mul(before, keep);
      simd::store(to + v * simd::kLanes, simd::fma(_mm512_cvtepi32_ps(products[r][v]),
                                                   simd::set1(softmax.take[r]), before));
    }
  }
}

// kByteColumns sums as `load_values` has its elements, put in order.
template <class E>
void put_in_order(float* sums) {
  F32 from[4];
  for (uint32_t v = 0; v < 4; ++v) from[v] = simd::load(sums + v * simd::kLanes);
  if constexpr (E::kBits == 8) {
    // Quarter l of vector v has elements 16·l + 4·v …
    const F32 a = _mm512_shuffle_f32x4(from[0], from[1], 0x44);
    const F32 b = _mm512_shuffle_f32x4(from[2], from[3], 0x44);
    const F32 c = _mm512_shuffle_f32x4(from[0], from[1], 0xee);
    const F32 d = _mm512_shuffle_f32x4(from[2], from[3], 0xee);
    simd::store(sums, _mm512_shuffle_f32x4(a, b, 0x88));
    simd::store(sums + simd::kLanes, _mm512_shuffle_f32x4(a, b, 0xdd));
    simd::store(sums + 2 * simd::kLanes, _mm512_shuffle_f32x4(c, d, 0x88));
    simd::store(sums + 3 * simd::kLanes, _mm512_shuffle_f32x4(c, d, 0xdd));
  } else {
    for (uint32_t v = 0; v < 4; v += 2) {
      F32 front;
      F32 back;
      simd::interleave(from[v], from[v + 1], front, back);
      simd::store(sums + v * simd::kLanes, front);
      simd::store(sums + (v + 1) * simd::kLanes, back);
    }
  }
}

}  // namespace
}  // namespace tenon::attention_cpu

#endif
