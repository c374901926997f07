// AVX2 with FMA and F16C. Included by simd.h alone, which documents the functions.
#pragma once

#ifdef __AVX2__

#include <immintrin.h>

#include <cstdint>

#define TENON_SIMD_SET avx2

namespace tenon::sdk::simd {
inline namespace avx2 {

using F32 = __m256;
using Mask = __m256;
inline constexpr uint32_t kLanes = 8;
inline constexpr uint32_t kRegisters = 16;

[[gnu::always_inline]] inline __m256i first_lanes(uint32_t count) noexcept {
  const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const int wanted = count < 8 ? static_cast<int>(count) : 8;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(wanted), lanes);
}

[[gnu::always_inline]] inline F32 zero() noexcept {
  return _mm256_setzero_ps();
}
[[gnu::always_inline]] inline F32 set1(float value) noexcept {
  return _mm256_set1_ps(value);
}
[[gnu::always_inline]] inline F32 load(const void* from) noexcept {
  return _mm256_castsi256_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
[[gnu::always_inline]] inline F32 load_halves(const void* low, const void* high) noexcept {
  const __m256 one = _mm256_castps128_ps256(_mm_loadu_ps(static_cast<const float*>(low)));
  return _mm256_insertf128_ps(one, _mm_loadu_ps(static_cast<const float*>(high)), 1);
}
[[gnu::always_inline]] inline void store(float* to, F32 value) noexcept {
  _mm256_storeu_ps(to, value);
}
[[gnu::always_inline]] inline F32 load_first(const float* from, uint32_t count) noexcept {
  return _mm256_maskload_ps(from, first_lanes(count));
}
[[gnu::always_inline]] inline void stream(float* to, F32 value) noexcept {
  _mm256_stream_ps(to, value);
}
[[gnu::always_inline]] inline void end_streams() noexcept {
  _mm_sfence();
}
[[gnu::always_inline]] inline void store_first(float* to, F32 value, uint32_t count) noexcept {
  _mm256_maskstore_ps(to, first_lanes(count), value);
}

[[gnu::always_inline]] inline F32 add(F32 a, F32 b) noexcept {
  return _mm256_add_ps(a, b);
}
[[gnu::always_inline]] inline F32 sub(F32 a, F32 b) noexcept {
  return _mm256_sub_ps(a, b);
}
[[gnu::always_inline]] inline F32 mul(F32 a, F32 b) noexcept {
  return _mm256_mul_ps(a, b);
}
[[gnu::always_inline]] inline F32 div(F32 a, F32 b) noexcept {
  return _mm256_div_ps(a, b);
}
[[gnu::always_inline]] inline F32 fma(F32 a, F32 b, F32 c) noexcept {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline F32 min(F32 a, F32 b) noexcept {
  return _mm256_min_ps(a, b);
}
[[gnu::always_inline]] inline F32 max(F32 a, F32 b) noexcept {
  return _mm256_max_ps(a, b);
}
[[gnu::always_inline]] inline F32 round(F32 a) noexcept {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Two factors, because 2^128 alone is not a number.
[[gnu::always_inline]] inline F32 scale_exponent(F32 a, F32 n) noexcept {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const F32 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const F32 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(a, first), second);
}
// 2^n from n + 1.5·2^23 + 127, as `exp2_nonpositive` has it: the integer stands in the low bits.
[[gnu::always_inline]] inline F32 exponent_bits(F32 shifted) noexcept {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
}

[[gnu::always_inline]] inline Mask less(F32 a, F32 b) noexcept {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
[[gnu::always_inline]] inline bool any(Mask mask) noexcept {
  return _mm256_movemask_ps(mask) != 0;
}
[[gnu::always_inline]] inline F32 select(Mask mask, F32 yes, F32 no) noexcept {
  return _mm256_blendv_ps(no, yes, mask);
}
[[gnu::always_inline]] inline F32 lane_numbers() noexcept {
  return _mm256_set_ps(7, 6, 5, 4, 3, 2, 1, 0);
}

[[gnu::always_inline]] inline float first(F32 a) noexcept {
  return _mm256_cvtss_f32(a);
}
[[gnu::always_inline]] inline float reduce_add(F32 a) noexcept {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
[[gnu::always_inline]] inline float reduce_max(F32 a) noexcept {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

[[gnu::always_inline]] inline F32 widen_low(F32 words) noexcept {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(words), 16));
}
[[gnu::always_inline]] inline F32 widen_high(F32 words) noexcept {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(words),
                                              _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
[[gnu::always_inline]] inline F32 load_bf16(const void* from) noexcept {
  const __m128i packed = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(packed), 16));
}
[[gnu::always_inline]] inline F32 load_f16(const void* from) noexcept {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
[[gnu::always_inline]] inline F32 load_i8(const void* from) noexcept {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(from));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
[[gnu::always_inline]] inline F32 load_u8_words(const void* from) noexcept {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_cvtepu8_epi32(bytes));
}
template <int j>
[[gnu::always_inline]] inline F32 signed_byte(F32 words) noexcept {
  const __m256i high = _mm256_slli_epi32(_mm256_castps_si256(words), 24 - 8 * j);
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(high, 24));
}
[[gnu::always_inline]] inline F32 lowest_nibble(__m256i words) noexcept {
  return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(15)));
}
template <int j>
[[gnu::always_inline]] inline F32 nibble(F32 words) noexcept {
  return lowest_nibble(_mm256_srli_epi32(_mm256_castps_si256(words), 4 * j));
}
[[gnu::always_inline]] inline void load_nibbles(const void* from, F32& even, F32& odd) noexcept {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
  even = lowest_nibble(bytes);
  odd = lowest_nibble(_mm256_srli_epi32(bytes, 4));
}
[[gnu::always_inline]] inline void interleave(F32 even, F32 odd, F32& front, F32& back) noexcept {
  const F32 low = _mm256_unpacklo_ps(even, odd);
  const F32 high = _mm256_unpackhi_ps(even, odd);
  front = _mm256_permute2f128_ps(low, high, 0x20);
  back = _mm256_permute2f128_ps(low, high, 0x31);
}
[[gnu::always_inline]] inline void store_bf16(void* to, F32 value) noexcept {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, nan);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1));
  _mm_storeu_si128(static_cast<__m128i*>(to), packed);
}
[[gnu::always_inline]] inline void store_f16(void* to, F32 value) noexcept {
  _mm_storeu_si128(static_cast<__m128i*>(to),
                   _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

[[gnu::always_inline]] inline void transpose(F32 (&rows)[8]) noexcept {
  F32 a[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  F32 b[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

}  // namespace avx2
}  // namespace tenon::sdk::simd

#endif
