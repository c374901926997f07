#include "core/model/formats/quant_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "core/files/gguf.h"

namespace tenon {
namespace {

constexpr uint32_t kQuantElements = 32;

float read_half(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, 2);
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
  for (uint32_t i = 0; i < kQuantElements; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest / 127.0f;
  const float factor = inverse(scale);
  write_scale(scale, block);
  for (uint32_t i = 0; i < kQuantElements; ++i) {
    // Half away from zero. A tiny scale can have no finite inverse.
    const float q = std::clamp(std::round(values[i] * factor), -127.0f, 127.0f);
    block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(q));
  }
}

void quantize_q4_0(const float* values, std::byte* block) {
  float largest = 0.0f;
  for (uint32_t i = 0; i < kQuantElements; ++i) {
    if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
  }
  const float scale = largest / -8.0f;
  const float factor = inverse(scale);
  write_scale(scale, block);
  const auto level = [&](uint32_t i) {
    return static_cast<uint8_t>(std::clamp(values[i] * factor + 8.5f, 0.0f, 15.0f));
  };
  for (uint32_t i = 0; i < kQuantElements / 2; ++i) {
    block[2 + i] = static_cast<std::byte>(level(i) | level(i + kQuantElements / 2) << 4);
  }
}

void dequantize_q8_0(const std::byte* block, float* out) {
  const float scale = read_half(block);
  for (uint32_t i = 0; i < kQuantElements; ++i) {
    out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
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

// Infinity and NaN have an exponent of ones.
constexpr bool finite_bits(uint32_t bits, uint32_t exponent) {
  return (bits & exponent) != exponent;
}
// `count` numbers of f16, the first of them `at` bytes into the block.
template <uint32_t at, uint32_t count>
bool finite_f16(const std::byte* block) {
  bool finite = true;
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, block + at + 2 * i, sizeof(bits));
    finite &= finite_bits(bits, 0x7c00);
  }
  return finite;
}
bool finite_f32(const std::byte* block) {
  uint32_t bits;
  std::memcpy(&bits, block, sizeof(bits));
  return finite_bits(bits, 0x7f800000);
}
// The upper nibbles of four bytes are an f16, the last two have its exponent.
bool finite_iq1_m(const std::byte* block) {
  const auto nibble = [block](uint32_t i) {
    return std::to_integer<uint32_t>(block[49 + 2 * i]) >> 4;
  };
  return finite_bits(nibble(3) << 12 | nibble(2) << 8, 0x7c00);
}
// Of all blocks at once: a call for each of them takes 1.2 to 1.8 times as long.
template <bool (*finite)(const std::byte* block)>
bool all(const std::byte* block, uint64_t count, uint32_t bytes) {
  bool found = true;
  for (uint64_t i = 0; i < count; ++i, block += bytes) found &= finite(block);
  return found;
}

constexpr QuantFormat kFormats[] = {
    {"q8_0", 32, 34, dequantize_q8_0, quantize_q8_0, all<finite_f16<0, 1>>},
    {"q4_0", 32, 18, dequantize_q4_0, quantize_q4_0, all<finite_f16<0, 1>>},
    {"q4_1", 32, 20, dequantize_q4_1, nullptr, all<finite_f16<0, 2>>},
    {"q5_0", 32, 22, dequantize_q5_0, nullptr, all<finite_f16<0, 1>>},
    {"q5_1", 32, 24, dequantize_q5_1, nullptr, all<finite_f16<0, 2>>},
    {"q4_k", 256, 144, dequantize_q4_k, nullptr, all<finite_f16<0, 2>>},
    {"q5_k", 256, 176, dequantize_q5_k, nullptr, all<finite_f16<0, 2>>},
    {"q6_k", 256, 210, dequantize_q6_k, nullptr, all<finite_f16<208, 1>>},
    {"q2_k", 256, 84, dequantize_q2_k, nullptr, all<finite_f16<80, 2>>},
    {"q3_k", 256, 110, dequantize_q3_k, nullptr, all<finite_f16<108, 1>>},
    {"iq4_nl", 32, 18, dequantize_iq4_nl, nullptr, all<finite_f16<0, 1>>},
    {"iq4_xs", 256, 136, dequantize_iq4_xs, nullptr, all<finite_f16<0, 1>>},
    {"iq3_xxs", 256, 98, dequantize_iq3_xxs, nullptr, all<finite_f16<0, 1>>},
    {"iq3_s", 256, 110, dequantize_iq3_s, nullptr, all<finite_f16<0, 1>>},
    {"iq2_xxs", 256, 66, dequantize_iq2_xxs, nullptr, all<finite_f16<0, 1>>},
    {"iq2_xs", 256, 74, dequantize_iq2_xs, nullptr, all<finite_f16<0, 1>>},
    {"iq2_s", 256, 82, dequantize_iq2_s, nullptr, all<finite_f16<0, 1>>},
    {"iq1_s", 256, 50, dequantize_iq1_s, nullptr, all<finite_f16<0, 1>>},
    {"iq1_m", 256, 56, dequantize_iq1_m, nullptr, all<finite_iq1_m>},
    {"tq1_0", 256, 54, dequantize_tq1_0, nullptr, all<finite_f16<52, 1>>},
    {"tq2_0", 256, 66, dequantize_tq2_0, nullptr, all<finite_f16<64, 1>>},
    {"mxfp4", 32, 17, dequantize_mxfp4, nullptr, nullptr},
    {"nf4_32", 32, 18, dequantize_nf4<32>, nullptr, all<finite_f16<0, 1>>},
    {"nf4_64", 64, 34, dequantize_nf4<64>, nullptr, all<finite_f16<0, 1>>},
    {"fp4_32", 32, 18, dequantize_fp4<32>, nullptr, all<finite_f16<0, 1>>},
    {"fp4_64", 64, 34, dequantize_fp4<64>, nullptr, all<finite_f16<0, 1>>},
    {"u2_32", 32, 12, dequantize_codes<2, 32>, nullptr, all<finite_f16<0, 2>>},
    {"u2_64", 64, 20, dequantize_codes<2, 64>, nullptr, all<finite_f16<0, 2>>},
    {"u2_128", 128, 36, dequantize_codes<2, 128>, nullptr, all<finite_f16<0, 2>>},
    {"u3_32", 32, 16, dequantize_codes<3, 32>, nullptr, all<finite_f16<0, 2>>},
    {"u3_64", 64, 28, dequantize_codes<3, 64>, nullptr, all<finite_f16<0, 2>>},
    {"u3_128", 128, 52, dequantize_codes<3, 128>, nullptr, all<finite_f16<0, 2>>},
    {"u4_32", 32, 20, dequantize_codes<4, 32>, nullptr, all<finite_f16<0, 2>>},
    {"u4_64", 64, 36, dequantize_codes<4, 64>, nullptr, all<finite_f16<0, 2>>},
    {"u4_128", 128, 68, dequantize_codes<4, 128>, nullptr, all<finite_f16<0, 2>>},
    {"u8_32", 32, 36, dequantize_codes<8, 32>, nullptr, all<finite_f16<0, 2>>},
    {"u8_64", 64, 68, dequantize_codes<8, 64>, nullptr, all<finite_f16<0, 2>>},
    {"u8_128", 128, 132, dequantize_codes<8, 128>, nullptr, all<finite_f16<0, 2>>},
    {"f8_32", 32, 36, dequantize_f8<32>, nullptr, all<finite_f32>},
    {"f8_64", 64, 68, dequantize_f8<64>, nullptr, all<finite_f32>},
    {"f8_128", 128, 132, dequantize_f8<128>, nullptr, all<finite_f32>},
};

}  // namespace

const QuantFormat* find_quant_format(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &QuantFormat::name);
  return found == std::end(kFormats) ? nullptr : found;
}

bool is_gguf_format(const QuantFormat& format) {
  return find_tensor_type(format.name) != nullptr;
}

std::string weight_formats_text() {
  std::string text = "f32, f16", last = "bf16";
  for (const QuantFormat& format : kFormats) {
    if (!is_gguf_format(format)) continue;
    text += ", " + last;
    last = format.name;
  }
  return text + " and " + last;
}

void dequantize_row(const QuantFormat& format, const std::byte* row, uint64_t elements,
                    float* out) {
  for (uint64_t i = 0; i < elements; i += format.elements, row += format.bytes) {
    format.dequantize(row, out + i);
  }
}

void quantize_row(const QuantFormat& format, const float* values, uint64_t elements,
                  std::byte* out) {
  for (uint64_t i = 0; i < elements; i += format.elements, out += format.bytes) {
    format.quantize(values + i, out);
  }
}

bool is_finite_row(const QuantFormat& format, const std::byte* row, uint64_t elements) {
  return format.finite == nullptr || format.finite(row, elements / format.elements, format.bytes);
}

}  // namespace tenon
