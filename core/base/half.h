// 16-bit floating point formats: IEEE 754 binary16 ("f16") and bfloat16 ("bf16").
#pragma once

#include <bit>
#include <cstdint>

namespace tenon {

inline float float_from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Nearest, ties to even; NaN stays NaN.
inline uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

inline float float_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  if (magnitude >= 0x0f800000u) {  // infinity, NaN
    return std::bit_cast<float>(sign | 0x70000000u | magnitude);
  }
  if (magnitude < 0x00800000u) {
    // Subnormal, m · 2^-24: read as 2^-14 + m · 2^-24, which is exact, so that no subnormal float
    // arises that the processor may be told to flush.
    const float shifted = std::bit_cast<float>(0x38800000u | magnitude) - 0x1p-14f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(shifted));
  }
  return std::bit_cast<float>(sign | (magnitude + 0x38000000u));  // bias 15 to 127
}

// Nearest, ties to even; too large becomes infinity; NaN stays NaN.
inline uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 makes the float adder round at the place of the last bit, 2^-24.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude + 0xfffu + odd - 0x38000000u) >> 13);
}

}  // namespace tenon
