// AArch64's vectors of 128 bits with fused multiply-add, which every one of its processors has.
// Included by simd.h alone, which documents the functions.
#pragma once

#ifdef __aarch64__

#include <arm_neon.h>

#include <cstdint>

#define TENON_SIMD_SET neon

namespace tenon::sdk::simd {
inline namespace neon {

using F32 = float32x4_t;
using Mask = uint32x4_t;
inline constexpr uint32_t kLanes = 4;
inline constexpr uint32_t kRegisters = 32;

[[gnu::always_inline]] inline F32 zero() noexcept {
  return vdupq_n_f32(0);
}
[[gnu::always_inline]] inline F32 set1(float value) noexcept {
  return vdupq_n_f32(value);
}
[[gnu::always_inline]] inline F32 load(const void* from) noexcept {
  return vreinterpretq_f32_u8(vld1q_u8(static_cast<const uint8_t*>(from)));
}
[[gnu::always_inline]] inline F32 load_halves(const void* low, const void* high) noexcept {
  return vreinterpretq_f32_u8(vcombine_u8(vld1_u8(static_cast<const uint8_t*>(low)),
                                          vld1_u8(static_cast<const uint8_t*>(high))));
}
[[gnu::always_inline]] inline void store(float* to, F32 value) noexcept {
  vst1q_f32(to, value);
}
[[gnu::always_inline]] inline F32 load_first(const float* from, uint32_t count) noexcept {
  if (count >= 4) return vld1q_f32(from);
  F32 value = zero();
  if (count > 0) value = vld1q_lane_f32(from, value, 0);
  if (count > 1) value = vld1q_lane_f32(from + 1, value, 1);
  if (count > 2) value = vld1q_lane_f32(from + 2, value, 2);
  return value;
}
[[gnu::always_inline]] inline void stream(float* to, F32 value) noexcept {
  store(to, value);
}
[[gnu::always_inline]] inline void end_streams() noexcept {}
[[gnu::always_inline]] inline void store_first(float* to, F32 value, uint32_t count) noexcept {
  if (count >= 4) return vst1q_f32(to, value);
  if (count > 0) vst1q_lane_f32(to, value, 0);
  if (count > 1) vst1q_lane_f32(to + 1, value, 1);
  if (count > 2) vst1q_lane_f32(to + 2, value, 2);
}

[[gnu::always_inline]] inline F32 add(F32 a, F32 b) noexcept {
  return vaddq_f32(a, b);
}
[[gnu::always_inline]] inline F32 sub(F32 a, F32 b) noexcept {
  return vsubq_f32(a, b);
}
[[gnu::always_inline]] inline F32 mul(F32 a, F32 b) noexcept {
  return vmulq_f32(a, b);
}
[[gnu::always_inline]] inline F32 div(F32 a, F32 b) noexcept {
  return vdivq_f32(a, b);
}
[[gnu::always_inline]] inline F32 fma(F32 a, F32 b, F32 c) noexcept {
  return vfmaq_f32(c, a, b);
}

[[gnu::always_inline]] inline Mask less(F32 a, F32 b) noexcept {
  return vcltq_f32(a, b);
}
[[gnu::always_inline]] inline bool any(Mask mask) noexcept {
  return vmaxvq_u32(mask) != 0;
}
[[gnu::always_inline]] inline F32 select(Mask mask, F32 yes, F32 no) noexcept {
  return vbslq_f32(mask, yes, no);
}
// The processor's own minimum and maximum are NaN where one operand is.
[[gnu::always_inline]] inline F32 min(F32 a, F32 b) noexcept {
  return vbslq_f32(vcltq_f32(a, b), a, b);
}
[[gnu::always_inline]] inline F32 max(F32 a, F32 b) noexcept {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
[[gnu::always_inline]] inline F32 lane_numbers() noexcept {
  return F32{0, 1, 2, 3};
}

[[gnu::always_inline]] inline F32 round(F32 a) noexcept {
  return vrndnq_f32(a);
}
// Two factors, because 2^128 alone is not a number.
[[gnu::always_inline]] inline F32 scale_exponent(F32 a, F32 n) noexcept {
  const int32x4_t whole = vcvtnq_s32_f32(n);
  const int32x4_t half = vshrq_n_s32(whole, 1);
  const int32x4_t rest = vsubq_s32(whole, half);
  const int32x4_t bias = vdupq_n_s32(127);
  const F32 first = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
  const F32 second = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
  return vmulq_f32(vmulq_f32(a, first), second);
}
// 2^n from n + 1.5·2^23 + 127, as `exp2_nonpositive` has it: the integer stands in the low bits.
[[gnu::always_inline]] inline F32 exponent_bits(F32 shifted) noexcept {
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23));
}

[[gnu::always_inline]] inline float first(F32 a) noexcept {
  return vgetq_lane_f32(a, 0);
}
[[gnu::always_inline]] inline float reduce_add(F32 a) noexcept {
  return vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a)));
}
[[gnu::always_inline]] inline float reduce_max(F32 a) noexcept {
  const float32x2_t low = vget_low_f32(a);
  const float32x2_t high = vget_high_f32(a);
  const float32x2_t pair = vbsl_f32(vcgt_f32(low, high), low, high);
  const float even = vget_lane_f32(pair, 0);
  const float odd = vget_lane_f32(pair, 1);
  return even > odd ? even : odd;
}

[[gnu::always_inline]] inline F32 widen_low(F32 words) noexcept {
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(words), 16));
}
[[gnu::always_inline]] inline F32 widen_high(F32 words) noexcept {
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(words), vdupq_n_u32(0xffff0000u)));
}
[[gnu::always_inline]] inline uint16x4_t load_halfwords(const void* from) noexcept {
  return vreinterpret_u16_u8(vld1_u8(static_cast<const uint8_t*>(from)));
}
[[gnu::always_inline]] inline F32 load_bf16(const void* from) noexcept {
  return vreinterpretq_f32_u32(vshll_n_u16(load_halfwords(from), 16));
}
[[gnu::always_inline]] inline F32 load_f16(const void* from) noexcept {
  return vcvt_f32_f16(vreinterpret_f16_u16(load_halfwords(from)));
}
// Four bytes in the low half, whatever is behind them.
[[gnu::always_inline]] inline uint8x8_t load_four(const void* from) noexcept {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return vreinterpret_u8_u32(vdup_n_u32(word));
}
[[gnu::always_inline]] inline F32 load_i8(const void* from) noexcept {
  const int16x8_t halves = vmovl_s8(vreinterpret_s8_u8(load_four(from)));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(halves)));
}
[[gnu::always_inline]] inline F32 load_u8_words(const void* from) noexcept {
  const uint16x8_t halves = vmovl_u8(load_four(from));
  return vreinterpretq_f32_u32(vmovl_u16(vget_low_u16(halves)));
}
template <int j>
[[gnu::always_inline]] inline F32 signed_byte(F32 words) noexcept {
  const int32x4_t high = vshlq_n_s32(vreinterpretq_s32_f32(words), 24 - 8 * j);
  return vcvtq_f32_s32(vshrq_n_s32(high, 24));
}
[[gnu::always_inline]] inline F32 lowest_nibble(uint32x4_t words) noexcept {
  return vcvtq_f32_u32(vandq_u32(words, vdupq_n_u32(15)));
}
template <int j>
[[gnu::always_inline]] inline F32 nibble(F32 words) noexcept {
  return lowest_nibble((uint32x4_t)words >> (4 * j));
}
[[gnu::always_inline]] inline void load_nibbles(const void* from, F32& even, F32& odd) noexcept {
  const uint32x4_t bytes = vreinterpretq_u32_f32(load_u8_words(from));
  even = lowest_nibble(bytes);
  odd = lowest_nibble(vshrq_n_u32(bytes, 4));
}
[[gnu::always_inline]] inline void interleave(F32 even, F32 odd, F32& front, F32& back) noexcept {
  front = vzip1q_f32(even, odd);
  back = vzip2q_f32(even, odd);
}
[[gnu::always_inline]] inline void store_bf16(void* to, F32 value) noexcept {
  const uint32x4_t bits = vreinterpretq_u32_f32(value);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  const uint32x4_t chosen = vbslq_u32(vceqq_f32(value, value), rounded, quiet);
  vst1_u8(static_cast<uint8_t*>(to), vreinterpret_u8_u16(vshrn_n_u32(chosen, 16)));
}
[[gnu::always_inline]] inline void store_f16(void* to, F32 value) noexcept {
  vst1_u8(static_cast<uint8_t*>(to), vreinterpret_u8_f16(vcvt_f16_f32(value)));
}

[[gnu::always_inline]] inline void transpose(F32 (&rows)[4]) noexcept {
  const F32 a = vzip1q_f32(rows[0], rows[2]);
  const F32 b = vzip2q_f32(rows[0], rows[2]);
  const F32 c = vzip1q_f32(rows[1], rows[3]);
  const F32 d = vzip2q_f32(rows[1], rows[3]);
  rows[0] = vzip1q_f32(a, c);
  rows[1] = vzip2q_f32(a, c);
  rows[2] = vzip1q_f32(b, d);
  rows[3] = vzip2q_f32(b, d);
}

}  // namespace neon
}  // namespace tenon::sdk::simd

#endif
