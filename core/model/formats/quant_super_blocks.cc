// q2_k to q6_k, tq1_0 and tq2_0: blocks of 256 values in groups whose scales are small integers
// times a scale of the block. The kernels read them by code of their own: <tenon/sdk/linear/
// quant_formats.h> takes a file's bits apart, quant_steps.h reads a panel of them.
#include <cstring>

#include "core/base/half.h"
#include "core/model/formats/quant_format.h"

namespace tenon {
namespace {

float read_half(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return float_from_f16(bits);
}

uint32_t at(const std::byte* bytes, uint32_t index) {
  return std::to_integer<uint32_t>(bytes[index]);
}

// Six bits each of eight scales and eight minima in 12 bytes: the first four of both are the low
// bits of bytes 0-3 and 4-7; the others have four bits in bytes 8-11 and two on top of the first.
struct ScaleAndMinimum {
  uint32_t scale, minimum;
};
ScaleAndMinimum scale_of_group(const std::byte* packed, uint32_t group) {
  if (group < 4) return {at(packed, group) & 63, at(packed, group + 4) & 63};
  const uint32_t low = at(packed, group + 4);
  return {(low & 15) | at(packed, group - 4) >> 6 << 4, low >> 4 | at(packed, group) >> 6 << 4};
}

// q4_k and q5_k: value = d · scale · q - dmin · minimum, in groups of 32. Two groups share 32 bytes
// of nibbles; group g has bit g of `fifth`'s bytes, where there are some.
void dequantize_with_minima(const std::byte* block, const std::byte* fifth,
                            const std::byte* nibbles, float* out) {
  const float d = read_half(block), dmin = read_half(block + 2);
  for (uint32_t g = 0; g < 8; ++g) {
    const ScaleAndMinimum small = scale_of_group(block + 4, g);
    const float scale = d * static_cast<float>(small.scale);
    const float minimum = dmin * static_cast<float>(small.minimum);
    for (uint32_t i = 0; i < 32; ++i) {
      uint32_t q = at(nibbles, g / 2 * 32 + i) >> (g % 2 * 4) & 15;
      if (fifth != nullptr) q |= (at(fifth, i) >> g & 1) << 4;
      out[g * 32 + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Four values a byte: value i has two bits at 2 · (i / 32 % 4) of byte i % 32 of its half.
uint32_t pair_of(const std::byte* pairs, uint32_t i) {
  return at(pairs, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3;
}

}  // namespace

void dequantize_q4_k(const std::byte* block, float* out) {
  dequantize_with_minima(block, nullptr, block + 16, out);
}

void dequantize_q5_k(const std::byte* block, float* out) {
  dequantize_with_minima(block, block + 16, block + 48, out);
}

// 128 bytes of nibbles, 64 of two high bits each, 16 signed scales, d: value = d · scale · (q - 32)
// in groups of 16. Each half of 128 values has 64 bytes of nibbles, low ones first, and 32 of high
// bits.
void dequantize_q6_k(const std::byte* block, float* out) {
  const std::byte *nibbles = block, *high = block + 128, *scales = block + 192;
  const float d = read_half(block + 208);
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t half = i / 128, within = i % 128;
    const uint32_t low = at(nibbles, half * 64 + within % 64) >> (within / 64 * 4) & 15;
    const uint32_t top = at(high, half * 32 + within % 32) >> (within / 32 * 2) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = scale * static_cast<float>(static_cast<int>(low | top << 4) - 32);
  }
}

// 16 bytes of a scale and a minimum for 16 values, 64 of two bits each, d, dmin:
// value = d · scale · q - dmin · minimum.
void dequantize_q2_k(const std::byte* block, float* out) {
  const float d = read_half(block + 80), dmin = read_half(block + 82);
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t small = at(block, i / 16);
    const float minimum = dmin * static_cast<float>(small >> 4);
    out[i] =
        d * static_cast<float>(small & 15) * static_cast<float>(pair_of(block + 16, i)) - minimum;
  }
}

// 32 bytes of third bits, 64 of two bits each, 12 of sixteen scales of six bits, d:
// value = d · (scale - 32) · (q - 4) in groups of 16. The scales' low halves are the nibbles of
// eight bytes, low ones first; their high ones the pairs of four bytes, a pair of each byte in
// turn.
void dequantize_q3_k(const std::byte* block, float* out) {
  const std::byte* scales = block + 96;
  const float d = read_half(block + 108);
  for (uint32_t i = 0; i < 256; ++i) {
    const uint32_t g = i / 16;
    const uint32_t low = g < 8 ? at(scales, g) & 15 : at(scales, g - 8) >> 4;
    const uint32_t high = at(scales, 8 + g % 4) >> (2 * (g / 4)) & 3;
    const float scale = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    const uint32_t third = at(block, i % 32) >> (i / 32) & 1;
    const auto q = static_cast<int>(pair_of(block + 32, i) | third << 2) - 4;
    out[i] = scale * static_cast<float>(q);
  }
}

// Ternary values, two bits each: value = d · (q - 1).
void dequantize_tq2_0(const std::byte* block, float* out) {
  const float d = read_half(block + 64);
  for (uint32_t i = 0; i < 256; ++i) {
    out[i] = d * static_cast<float>(static_cast<int>(pair_of(block, i)) - 1);
  }
}

// Ternary values, five in a byte: a byte is the fraction byte / 256, its ternary digits behind the
// point are those of five values. 48 bytes and four of four digits, in runs of 32, 16 and 4.
void dequantize_tq1_0(const std::byte* block, float* out) {
  const float d = read_half(block + 52);
  const struct { uint32_t byte, bytes, digits; } runs[] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  for (const auto& run : runs) {
    for (uint32_t digit = 0, power = 1; digit < run.digits; ++digit, power *= 3) {
      for (uint32_t i = 0; i < run.bytes; ++i) {
        const uint32_t rest = at(block, run.byte + i) * power % 256;
        *out++ = d * static_cast<float>(static_cast<int>(3 * rest / 256) - 1);
      }
    }
  }
}

}  // namespace tenon
