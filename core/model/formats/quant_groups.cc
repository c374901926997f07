// Blocks of codes that index a table of levels, or that have a scale and a zero point.
#include <tenon/formats/levels.h>

#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "core/model/formats/quant_format.h"

namespace tenon {
namespace {

float half_of(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return float_from_f16(bits);
}

uint32_t byte_of(const std::byte* bytes, uint32_t index) {
  return std::to_integer<uint32_t>(bytes[index]);
}

// 32 codes in 4 · bits bytes.
uint32_t code_of(const std::byte* codes, uint32_t bits, uint32_t i) {
  if (bits == 8) return byte_of(codes, i);
  if (bits == 4) return byte_of(codes, i % 16) >> (i / 16 * 4) & 15;
  const uint32_t low = byte_of(codes, i % 8) >> (i / 8 * 2) & 3;
  return bits == 2 ? low : low | (byte_of(codes, 8 + i / 8) >> (i % 8) & 1) << 2;
}

void dequantize_levels(const float (&levels)[16], float scale, const std::byte* codes,
                       uint32_t values, float* out) {
  for (uint32_t i = 0; i < values; ++i) {
    out[i] = scale * levels[code_of(codes + i / 32 * 16, 4, i % 32)];
  }
}

float e4m3(uint32_t byte) {
  const auto exponent = static_cast<int>(byte >> 3 & 15);
  const auto mantissa = static_cast<float>(byte & 7);
  const float value =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8.0f + mantissa, exponent - 10);
  return (byte & 0x80) != 0 ? -value : value;
}

// The code's zero point times the scale is taken off.
template <uint32_t bits, uint32_t values>
void dequantize_codes(const std::byte* block, float* out) {
  const float scale = half_of(block);
  const float minimum = -(scale * half_of(block + 2));
  for (uint32_t i = 0; i < values; ++i) {
    const uint32_t code = code_of(block + 4 + i / 32 * 4 * bits, bits, i % 32);
    out[i] = scale * static_cast<float>(code) + minimum;
  }
}

template <uint32_t values>
void dequantize_f8(const std::byte* block, float* out) {
  float scale;
  std::memcpy(&scale, block, 4);
  for (uint32_t i = 0; i < values; ++i) out[i] = scale * e4m3(byte_of(block, 4 + i));
}

}  // namespace

void dequantize_iq4_nl(const std::byte* block, float* out) {
  dequantize_levels(kIq4Levels, half_of(block), block + 2, 32, out);
}

// Eight scales of six bits, less 32: four in nibbles behind a word with two each.
void dequantize_iq4_xs(const std::byte* block, float* out) {
  const float d = half_of(block);
  const uint32_t top = byte_of(block, 2) | byte_of(block, 3) << 8;
  for (uint32_t group = 0; group < 8; ++group) {
    const uint32_t low = byte_of(block, 4 + group / 2) >> (group % 2 * 4) & 15;
    const auto scale = static_cast<int>(low | (top >> (2 * group) & 3) << 4) - 32;
    dequantize_levels(kIq4Levels, d * static_cast<float>(scale), block + 8 + 16 * group, 32,
                      out + 32 * group);
  }
}

// The first byte is the exponent of a power of two, plus 127; levels are in halves.
void dequantize_mxfp4(const std::byte* block, float* out) {
  const float scale = std::ldexp(1.0f, static_cast<int>(byte_of(block, 0)) - 128);
  dequantize_levels(kE2M1Levels, scale, block + 1, 32, out);
}

// An f32, the scales of four times 16 values in E4M3, nibbles; levels are in halves.
void dequantize_nvfp4_64(const std::byte* block, float* out) {
  float scale;
  std::memcpy(&scale, block, 4);
  for (uint32_t i = 0; i < 64; ++i) {
    const float own = 0.5f * scale * e4m3(byte_of(block, 4 + i / 16));
    out[i] = own * kE2M1Levels[code_of(block + 8 + i / 32 * 16, 4, i % 32)];
  }
}

void dequantize_nf4_32(const std::byte* block, float* out) {
  dequantize_levels(kNf4Levels, half_of(block), block + 2, 32, out);
}
void dequantize_nf4_64(const std::byte* block, float* out) {
  dequantize_levels(kNf4Levels, half_of(block), block + 2, 64, out);
}
void dequantize_fp4_32(const std::byte* block, float* out) {
  dequantize_levels(kFp4Levels, half_of(block), block + 2, 32, out);
}
void dequantize_fp4_64(const std::byte* block, float* out) {
  dequantize_levels(kFp4Levels, half_of(block), block + 2, 64, out);
}

void dequantize_u2_32(const std::byte* block, float* out) {
  dequantize_codes<2, 32>(block, out);
}
void dequantize_u2_64(const std::byte* block, float* out) {
  dequantize_codes<2, 64>(block, out);
}
void dequantize_u2_128(const std::byte* block, float* out) {
  dequantize_codes<2, 128>(block, out);
}
void dequantize_u3_32(const std::byte* block, float* out) {
  dequantize_codes<3, 32>(block, out);
}
void dequantize_u3_64(const std::byte* block, float* out) {
  dequantize_codes<3, 64>(block, out);
}
void dequantize_u3_128(const std::byte* block, float* out) {
  dequantize_codes<3, 128>(block, out);
}
void dequantize_u4_32(const std::byte* block, float* out) {
  dequantize_codes<4, 32>(block, out);
}
void dequantize_u4_64(const std::byte* block, float* out) {
  dequantize_codes<4, 64>(block, out);
}
void dequantize_u4_128(const std::byte* block, float* out) {
  dequantize_codes<4, 128>(block, out);
}
void dequantize_u8_32(const std::byte* block, float* out) {
  dequantize_codes<8, 32>(block, out);
}
void dequantize_u8_64(const std::byte* block, float* out) {
  dequantize_codes<8, 64>(block, out);
}
void dequantize_u8_128(const std::byte* block, float* out) {
  dequantize_codes<8, 128>(block, out);
}
void dequantize_f8_32(const std::byte* block, float* out) {
  dequantize_f8<32>(block, out);
}
void dequantize_f8_64(const std::byte* block, float* out) {
  dequantize_f8<64>(block, out);
}
void dequantize_f8_128(const std::byte* block, float* out) {
  dequantize_f8<128>(block, out);
}

}  // namespace tenon
