// AVX-512 (F, BW, DQ, VL). Included by simd.h alone, which documents the functions.
#pragma once

#ifdef __AVX512F__

// GCC 12 finds fault with its own header.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstdint>

#define TENON_SIMD_SET avx512

namespace tenon::sdk::simd {
inline namespace avx512 {

using F32 = __m512;
using Mask = __mmask16;
inline constexpr uint32_t kLanes = 16;
inline constexpr uint32_t kRegisters = 32;

[[gnu::always_inline]] inline __mmask16 first_lanes(uint32_t count) noexcept {
  return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1u);
}

[[gnu::always_inline]] inline F32 zero() noexcept {
  return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline F32 set1(float value) noexcept {
  return _mm512_set1_ps(value);
}
[[gnu::always_inline]] inline F32 load(const void* from) noexcept {
  return _mm512_loadu_ps(from);
}
[[gnu::always_inline]] inline F32 load_halves(const void* low, const void* high) noexcept {
  const __m512 one = _mm512_castps256_ps512(_mm256_loadu_ps(static_cast<const float*>(low)));
  return _mm512_insertf32x8(one, _mm256_loadu_ps(static_cast<const float*>(high)), 1);
}
[[gnu::always_inline]] inline void store(float* to, F32 value) noexcept {
  _mm512_storeu_ps(to, value);
}
[[gnu::always_inline]] inline F32 load_first(const float* from, uint32_t count) noexcept {
  return _mm512_maskz_loadu_ps(first_lanes(count), from);
}
[[gnu::always_inline]] inline void stream(float* to, F32 value) noexcept {
  _mm512_stream_ps(to, value);
}
[[gnu::always_inline]] inline void end_streams() noexcept {
  _mm_sfence();
}
[[gnu::always_inline]] inline void store_first(float* to, F32 value, uint32_t count) noexcept {
  _mm512_mask_storeu_ps(to, first_lanes(count), value);
}

[[gnu::always_inline]] inline F32 add(F32 a, F32 b) noexcept {
  return _mm512_add_ps(a, b);
}
[[gnu::always_inline]] inline F32 sub(F32 a, F32 b) noexcept {
  return _mm512_sub_ps(a, b);
}
[[gnu::always_inline]] inline F32 mul(F32 a, F32 b) noexcept {
  return _mm512_mul_ps(a, b);
}
[[gnu::always_inline]] inline F32 div(F32 a, F32 b) noexcept {
  return _mm512_div_ps(a, b);
}
[[gnu::always_inline]] inline F32 fma(F32 a, F32 b, F32 c) noexcept {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline F32 min(F32 a, F32 b) noexcept {
  return _mm512_min_ps(a, b);
}
[[gnu::always_inline]] inline F32 max(F32 a, F32 b) noexcept {
  return _mm512_max_ps(a, b);
}
[[gnu::always_inline]] inline F32 round(F32 a) noexcept {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
[[gnu::always_inline]] inline F32 scale_exponent(F32 a, F32 n) noexcept {
  return _mm512_scalef_ps(a, n);
}
// 2^n from n + 1.5·2^23 + 127, as `exp2_nonpositive` has it: the integer stands in the low bits.
[[gnu::always_inline]] inline F32 exponent_bits(F32 shifted) noexcept {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23));
}

[[gnu::always_inline]] inline Mask less(F32 a, F32 b) noexcept {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
[[gnu::always_inline]] inline bool any(Mask mask) noexcept {
  return mask != 0;
}
[[gnu::always_inline]] inline F32 select(Mask mask, F32 yes, F32 no) noexcept {
  return _mm512_mask_blend_ps(mask, no, yes);
}
[[gnu::always_inline]] inline F32 lane_numbers() noexcept {
  return _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

[[gnu::always_inline]] inline float first(F32 a) noexcept {
  return _mm512_cvtss_f32(a);
}
[[gnu::always_inline]] inline float reduce_add(F32 a) noexcept {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
[[gnu::always_inline]] inline float reduce_max(F32 a) noexcept {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

[[gnu::always_inline]] inline F32 widen_low(F32 words) noexcept {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(words), 16));
}
[[gnu::always_inline]] inline F32 widen_high(F32 words) noexcept {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(words),
                                              _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
[[gnu::always_inline]] inline F32 load_bf16(const void* from) noexcept {
  const __m256i packed = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(packed), 16));
}
[[gnu::always_inline]] inline F32 load_f16(const void* from) noexcept {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
[[gnu::always_inline]] inline F32 load_i8(const void* from) noexcept {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
[[gnu::always_inline]] inline F32 load_u8_words(const void* from) noexcept {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return _mm512_castsi512_ps(_mm512_cvtepu8_epi32(bytes));
}
template <int j>
[[gnu::always_inline]] inline F32 signed_byte(F32 words) noexcept {
  const __m512i high = _mm512_slli_epi32(_mm512_castps_si512(words), 24 - 8 * j);
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(high, 24));
}
// A table look-up, which reads the lowest four bits of each word and ignores the others.
[[gnu::always_inline]] inline F32 lowest_nibble(__m512i words) noexcept {
  return _mm512_permutexvar_ps(words,
                               _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
}
template <int j>
[[gnu::always_inline]] inline F32 nibble(F32 words) noexcept {
  return lowest_nibble(_mm512_srli_epi32(_mm512_castps_si512(words), 4 * j));
}
[[gnu::always_inline]] inline void load_nibbles(const void* from, F32& even, F32& odd) noexcept {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  even = lowest_nibble(bytes);
  odd = lowest_nibble(_mm512_srli_epi32(bytes, 4));
}
[[gnu::always_inline]] inline void interleave(F32 even, F32 odd, F32& front, F32& back) noexcept {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  front = _mm512_permutex2var_ps(even, low, odd);
  back = _mm512_permutex2var_ps(even, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd);
}
// In integers, not by the conversion instruction, which treats subnormals differently.
[[gnu::always_inline]] inline void store_bf16(void* to, F32 value) noexcept {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512i chosen = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(chosen));
}
[[gnu::always_inline]] inline void store_f16(void* to, F32 value) noexcept {
  _mm256_storeu_si256(static_cast<__m256i*>(to),
                      _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// Pairs of rows, then of 64-bit pairs, then of 128-bit quarters, then of halves.
[[gnu::always_inline]] inline void transpose(F32 (&rows)[16]) noexcept {
  F32 a[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
  }
  F32 b[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
    a[i + 8] = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_f32x4(a[i], a[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_f32x4(a[i], a[i + 8], 0xdd);
    rows[i + 4] = _mm512_shuffle_f32x4(a[i + 4], a[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_f32x4(a[i + 4], a[i + 12], 0xdd);
  }
}

}  // namespace avx512
}  // namespace tenon::sdk::simd

#endif
