// Blocks of 32 integers of 4, 5 or 8 bits with one scale, and perhaps a minimum.
#include <cstring>

#include "core/base/half.h"
#include "core/model/formats/quant_format.h"

namespace tenon {
namespace {

constexpr uint32_t kQuantElements = 32;

float read_half(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return float_from_f16(bits);
}

// 16 bytes of nibbles, value i in the low half of byte i and value i + 16 in the high half, each
// with its bit of `fifth` on top: value = scale · (q - zero) + minimum.
constexpr float kNoMinimum = -0.0f;  // the one number that changes none it is added to
void dequantize_nibbles(const std::byte* nibbles, uint32_t fifth, int zero, float scale,
                        float minimum, float* out) {
  for (uint32_t i = 0; i < kQuantElements; ++i) {
    const auto pair = std::to_integer<uint32_t>(nibbles[i % 16]);
    const uint32_t q = (i < 16 ? pair & 15 : pair >> 4) | (fifth >> i & 1) << 4;
    out[i] = scale * static_cast<float>(static_cast<int>(q) - zero) + minimum;
  }
}

uint32_t read_bits(const std::byte* from) {
  uint32_t bits;
  std::memcpy(&bits, from, 4);
  return bits;
}

}  // namespace

void dequantize_q8_0(const std::byte* block, float* out) {
  const float scale = read_half(block);
  for (uint32_t i = 0; i < kQuantElements; ++i) {
    out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

void dequantize_q4_0(const std::byte* block, float* out) {
  dequantize_nibbles(block + 2, 0, 8, read_half(block), kNoMinimum, out);
}
void dequantize_q4_1(const std::byte* block, float* out) {
  dequantize_nibbles(block + 4, 0, 0, read_half(block), read_half(block + 2), out);
}
void dequantize_q5_0(const std::byte* block, float* out) {
  dequantize_nibbles(block + 6, read_bits(block + 2), 16, read_half(block), kNoMinimum, out);
}
void dequantize_q5_1(const std::byte* block, float* out) {
  dequantize_nibbles(block + 8, read_bits(block + 4), 0, read_half(block), read_half(block + 2),
                     out);
}

}  // namespace tenon
