// Floats of 8 bits, by their definition.
#pragma once

#include <cmath>
#include <cstdint>

namespace tenon::cuda::test {

// What a code of E4M3 is: a sign, four bits of exponent, three of mantissa; NaN's code is 480.
inline float of_8_bits(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const auto mantissa = static_cast<float>(code & 7);
  const float size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8.0f + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

}  // namespace tenon::cuda::test
