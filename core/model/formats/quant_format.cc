#include "core/model/formats/quant_format.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/base/half.h"
#include "core/base/text.h"
#include "core/files/gguf.h"

namespace tenon {
namespace {

constexpr uint32_t kQuantElements = 32;

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

// What each format's row says of its scales: whether they are finite numbers. Infinity and NaN have
// an exponent of ones.
constexpr bool finite_bits(uint32_t bits, uint32_t exponent) {
  return (bits & exponent) != exponent;
}
template <uint32_t at>
bool finite_f16(const std::byte* block) {
  uint16_t bits;
  std::memcpy(&bits, block + at, sizeof(bits));
  return finite_bits(bits, 0x7c00);
}
template <uint32_t at>
bool finite_f16x2(const std::byte* block) {
  return (unsigned{finite_f16<at>(block)} & unsigned{finite_f16<at + 2>(block)}) != 0;
}
template <uint32_t at>
bool finite_f32(const std::byte* block) {
  uint32_t bits;
  std::memcpy(&bits, block + at, sizeof(bits));
  return finite_bits(bits, 0x7f800000);
}
// The upper nibbles of bytes 1, 3, 5 and 7 are an f16, the last two have its exponent.
template <uint32_t at>
bool finite_nibbles(const std::byte* block) {
  const auto nibble = [block](uint32_t i) {
    return std::to_integer<uint32_t>(block[at + 1 + 2 * i]) >> 4;
  };
  return finite_bits(nibble(3) << 12 | nibble(2) << 8, 0x7c00);
}
template <uint32_t at>
constexpr std::nullptr_t finite_power = nullptr;  // any byte is one

// Of all blocks at once: a call for each of them takes 1.2 to 1.8 times as long.
template <auto finite>
bool all(const std::byte* block, uint64_t count, uint32_t bytes) {
  bool found = true;
  for (uint64_t i = 0; i < count; ++i, block += bytes) found &= finite(block);
  return found;
}
template <auto finite>
constexpr decltype(QuantFormat::finite) finite_blocks() {
  if constexpr (std::is_null_pointer_v<decltype(finite)>) {
    return nullptr;
  } else {
    return all<finite>;
  }
}

constexpr decltype(QuantFormat::quantize) quantizer_of(std::string_view name) {
  if (name == "q8_0") return quantize_q8_0;
  return name == "q4_0" ? quantize_q4_0 : nullptr;
}

constexpr QuantFormat kFormats[] = {
#define TENON_FORMAT(name, values, bytes, scales, at, ...) \
  {#name,                                                  \
   values,                                                 \
   bytes,                                                  \
   dequantize_##name,                                      \
   quantizer_of(#name),                                    \
   finite_blocks<finite_##scales<at>>()},
#include <tenon/formats/weight_formats.def>
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
  std::vector<std::string> names{"f32", "f16", "bf16"};
  for (const QuantFormat& format : kFormats) {
    if (is_gguf_format(format)) names.emplace_back(format.name);
  }
  names.emplace_back(kGgufNvFp4);
  return join_and(names);
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
