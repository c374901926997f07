// 16-bit floating point, one value at a time: f16 (IEEE 754 binary16) and bf16 (the upper half of a
// binary32). Narrowing rounds to nearest, ties to even; a NaN stays a NaN and becomes quiet.
//
// Everything is always inlined, so that sources compiled for different instruction sets never share
// a copy.
#pragma once

#include <bit>
#include <cstdint>

namespace tenon::sdk {

[[gnu::always_inline]] constexpr float bf16_to_float(uint16_t value) noexcept {
  return __builtin_bit_cast(float, uint32_t{value} << 16);
}

[[gnu::always_inline]] constexpr uint16_t float_to_bf16(float value) noexcept {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

[[gnu::always_inline]] constexpr float f16_to_float(uint16_t value) noexcept {
  const uint32_t sign = uint32_t{value & 0x8000u} << 16;
  const uint32_t magnitude = value & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity and NaN
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return __builtin_bit_cast(float, sign | 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {  // zero and subnormal: a multiple of 2^-24
    const float small = static_cast<float>(magnitude) * 0x1.0p-24f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, small));
  }
  return __builtin_bit_cast(float, sign | ((magnitude << 13) + (uint32_t{127 - 15} << 23)));
}

[[gnu::always_inline]] constexpr uint16_t float_to_f16(float value) noexcept {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 rounds to a multiple of 2^-24
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (__builtin_bit_cast(uint32_t, shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - (uint32_t{127 - 15} << 23)) >> 13));
}

}  // namespace tenon::sdk
