// Compiler vectors of four lanes: SSE2 on x86-64, NEON on aarch64. Included by simd.h alone, which
// documents the functions.
#pragma once

#include <tenon/sdk/half.h>

#include <cstdint>

#define TENON_SIMD_SET portable

namespace tenon::sdk::simd {
inline namespace portable {

typedef float F32 __attribute__((vector_size(16)));
typedef int32_t Mask __attribute__((vector_size(16)));
typedef uint32_t Bits __attribute__((vector_size(16)));
inline constexpr uint32_t kLanes = 4;
inline constexpr uint32_t kRegisters = 16;

[[gnu::always_inline]] inline F32 zero() noexcept {
  return F32{0, 0, 0, 0};
}
[[gnu::always_inline]] inline F32 set1(float value) noexcept {
  return F32{value, value, value, value};
}
[[gnu::always_inline]] inline F32 load(const void* from) noexcept {
  F32 value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}
[[gnu::always_inline]] inline F32 load_halves(const void* low, const void* high) noexcept {
  float values[4];
  __builtin_memcpy(values, low, 8);
  __builtin_memcpy(values + 2, high, 8);
  return load(values);
}
[[gnu::always_inline]] inline void store(float* to, F32 value) noexcept {
  __builtin_memcpy(to, &value, sizeof(value));
}
[[gnu::always_inline]] inline F32 load_first(const float* from, uint32_t count) noexcept {
  F32 value = zero();
  for (uint32_t i = 0; i < kLanes && i < count; ++i) value[i] = from[i];
  return value;
}
[[gnu::always_inline]] inline void stream(float* to, F32 value) noexcept {
  store(to, value);
}
[[gnu::always_inline]] inline void end_streams() noexcept {}
[[gnu::always_inline]] inline void store_first(float* to, F32 value, uint32_t count) noexcept {
  for (uint32_t i = 0; i < kLanes && i < count; ++i) to[i] = value[i];
}

[[gnu::always_inline]] inline F32 add(F32 a, F32 b) noexcept {
  return a + b;
}
[[gnu::always_inline]] inline F32 sub(F32 a, F32 b) noexcept {
  return a - b;
}
[[gnu::always_inline]] inline F32 mul(F32 a, F32 b) noexcept {
  return a * b;
}
[[gnu::always_inline]] inline F32 div(F32 a, F32 b) noexcept {
  return a / b;
}
[[gnu::always_inline]] inline F32 fma(F32 a, F32 b, F32 c) noexcept {
  return a * b + c;
}

[[gnu::always_inline]] inline Mask less(F32 a, F32 b) noexcept {
  return a < b;
}
[[gnu::always_inline]] inline bool any(Mask mask) noexcept {
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
}
[[gnu::always_inline]] inline F32 select(Mask mask, F32 yes, F32 no) noexcept {
  return (F32)((mask & (Mask)yes) | (~mask & (Mask)no));
}
[[gnu::always_inline]] inline F32 min(F32 a, F32 b) noexcept {
  return select(a < b, a, b);
}
[[gnu::always_inline]] inline F32 max(F32 a, F32 b) noexcept {
  return select(a > b, a, b);
}
[[gnu::always_inline]] inline F32 lane_numbers() noexcept {
  return F32{0, 1, 2, 3};
}

// For |a| < 2^22: adding 1.5·2^23 leaves no bits after the point.
[[gnu::always_inline]] inline F32 round(F32 a) noexcept {
  const F32 shift = set1(12582912.0f);
  return (a + shift) - shift;
}
// Two factors, because 2^128 alone is not a number.
[[gnu::always_inline]] inline F32 scale_exponent(F32 a, F32 n) noexcept {
  // The integer stands in the low bits of n + 1.5·2^23; a NaN gives some finite factor.
  const Mask whole = (Mask)(n + set1(12582912.0f)) - (Mask)set1(12582912.0f);
  const Mask half = whole >> 1;
  const Mask rest = whole - half;
  const F32 first = (F32)((Bits)(half + 127) << 23);
  const F32 second = (F32)((Bits)(rest + 127) << 23);
  return a * first * second;
}
// 2^n from n + 1.5·2^23 + 127, as `exp2_nonpositive` has it: the integer stands in the low bits.
[[gnu::always_inline]] inline F32 exponent_bits(F32 shifted) noexcept {
  return (F32)((Bits)shifted << 23);
}

[[gnu::always_inline]] inline float first(F32 a) noexcept {
  return a[0];
}
[[gnu::always_inline]] inline float reduce_add(F32 a) noexcept {
  return (a[0] + a[2]) + (a[1] + a[3]);
}
[[gnu::always_inline]] inline float reduce_max(F32 a) noexcept {
  const float even = a[0] > a[2] ? a[0] : a[2];
  const float odd = a[1] > a[3] ? a[1] : a[3];
  return even > odd ? even : odd;
}

[[gnu::always_inline]] inline F32 widen_low(F32 words) noexcept {
  return (F32)((Bits)words << 16);
}
[[gnu::always_inline]] inline F32 widen_high(F32 words) noexcept {
  return (F32)((Bits)words & 0xffff0000u);
}
[[gnu::always_inline]] inline F32 load_bf16(const void* from) noexcept {
  uint16_t values[4];
  __builtin_memcpy(values, from, sizeof(values));
  return (F32)(Bits{values[0], values[1], values[2], values[3]} << 16);
}
[[gnu::always_inline]] inline F32 load_f16(const void* from) noexcept {
  uint16_t values[4];
  __builtin_memcpy(values, from, sizeof(values));
  return F32{f16_to_float(values[0]), f16_to_float(values[1]), f16_to_float(values[2]),
             f16_to_float(values[3])};
}
[[gnu::always_inline]] inline F32 load_i8(const void* from) noexcept {
  int8_t values[4];
  __builtin_memcpy(values, from, sizeof(values));
  return __builtin_convertvector((Mask{values[0], values[1], values[2], values[3]}), F32);
}
[[gnu::always_inline]] inline F32 load_u8_words(const void* from) noexcept {
  uint8_t values[4];
  __builtin_memcpy(values, from, sizeof(values));
  return (F32)Bits{values[0], values[1], values[2], values[3]};
}
template <int j>
[[gnu::always_inline]] inline F32 signed_byte(F32 words) noexcept {
  return __builtin_convertvector((Mask)((Bits)words << (24 - 8 * j)) >> 24, F32);
}
template <int j>
[[gnu::always_inline]] inline F32 nibble(F32 words) noexcept {
  return __builtin_convertvector((Mask)(((Bits)words >> (4 * j)) & 15u), F32);
}
[[gnu::always_inline]] inline void load_nibbles(const void* from, F32& even, F32& odd) noexcept {
  uint8_t values[4];
  __builtin_memcpy(values, from, sizeof(values));
  const F32 bytes = (F32)Bits{values[0], values[1], values[2], values[3]};
  even = nibble<0>(bytes);
  odd = nibble<1>(bytes);
}
[[gnu::always_inline]] inline void interleave(F32 even, F32 odd, F32& front, F32& back) noexcept {
  front = __builtin_shufflevector(even, odd, 0, 4, 1, 5);
  back = __builtin_shufflevector(even, odd, 2, 6, 3, 7);
}
[[gnu::always_inline]] inline void store_bf16(void* to, F32 value) noexcept {
  const uint16_t values[4] = {float_to_bf16(value[0]), float_to_bf16(value[1]),
                              float_to_bf16(value[2]), float_to_bf16(value[3])};
  __builtin_memcpy(to, values, sizeof(values));
}
[[gnu::always_inline]] inline void store_f16(void* to, F32 value) noexcept {
  const uint16_t values[4] = {float_to_f16(value[0]), float_to_f16(value[1]),
                              float_to_f16(value[2]), float_to_f16(value[3])};
  __builtin_memcpy(to, values, sizeof(values));
}

[[gnu::always_inline]] inline void transpose(F32 (&rows)[4]) noexcept {
  const F32 a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const F32 b = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const F32 c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const F32 d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  rows[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  rows[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  rows[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  rows[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

}  // namespace portable
}  // namespace tenon::sdk::simd
