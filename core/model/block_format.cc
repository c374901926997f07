#include "core/model/block_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/half.h"

namespace tenon {
namespace {

float read_scale(const std::byte* block) {
  uint16_t bits;
  std::memcpy(&bits, block, 2);
  return float_from_f16(bits);
}

void write_scale(float scale, std::byte* block) {
  const uint16_t bits = f16_from_float(scale);
  std::memcpy(block, &bits, 2);
}

// What values are multiplied with: the scale itself rounds only when it is stored.
float inverse(float scale) {
  return scale == 0.0f ? 0.0f : 1.0f / scale;
}

void quantize_q8_0(const float* values, std::byte* block) {
  float largest = 0.0f;
  for (uint32_t i = 0; i < kBlockElements; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest / 127.0f;
  const float factor = inverse(scale);
  write_scale(scale, block);
  for (uint32_t i = 0; i < kBlockElements; ++i) {
    // Half away from zero. A tiny scale can have no finite inverse.
    const float q = std::clamp(std::round(values[i] * factor), -127.0f, 127.0f);
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(q));
  }
}

void quantize_q4_0(const float* values, std::byte* block) {
  float largest = 0.0f;
  for (uint32_t i = 0; i < kBlockElements; ++i) {
    if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
  }
  const float scale = largest / -8.0f;
  const float factor = inverse(scale);
  write_scale(scale, block);
  const auto level = [&](uint32_t i) {
    return static_cast<uint8_t>(std::clamp(values[i] * factor + 8.5f, 0.0f, 15.0f));
  };
  for (uint32_t i = 0; i < kBlockElements / 2; ++i) {
    block[2 + i] = static_cast<std::byte>(level(i) | level(i + kBlockElements / 2) << 4);
  }
}

void dequantize_q8_0(const std::byte* block, float* out) {
  const float scale = read_scale(block);
  for (uint32_t i = 0; i < kBlockElements; ++i) {
    out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

void dequantize_q4_0(const std::byte* block, float* out) {
  const float scale = read_scale(block);
  for (uint32_t i = 0; i < kBlockElements / 2; ++i) {
    const int pair = std::to_integer<int>(block[2 + i]);
    out[i] = scale * static_cast<float>((pair & 15) - 8);
    out[i + kBlockElements / 2] = scale * static_cast<float>((pair >> 4) - 8);
  }
}

}  // namespace

std::optional<BlockFormat> find_block_format(std::string_view name) {
  if (name == "q8_0") return BlockFormat::q8_0;
  if (name == "q4_0") return BlockFormat::q4_0;
  return std::nullopt;
}

void dequantize_row(BlockFormat format, const std::byte* row, uint64_t elements, float* out) {
  for (uint64_t i = 0; i < elements; i += kBlockElements, row += block_bytes(format)) {
    (format == BlockFormat::q8_0 ? dequantize_q8_0 : dequantize_q4_0)(row, out + i);
  }
}

void quantize_row(BlockFormat format, const float* values, uint64_t elements, std::byte* out) {
  for (uint64_t i = 0; i < elements; i += kBlockElements, out += block_bytes(format)) {
    (format == BlockFormat::q8_0 ? quantize_q8_0 : quantize_q4_0)(values + i, out);
  }
}

}  // namespace tenon
