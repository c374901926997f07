// Weights in quantised formats for tests, made from random numbers.
#pragma once

#include <tenon/formats/block_scales.h>
#include <tenon/linear.h>
#include <tenon/sdk/half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/formats/quant_format.h"
#include "tests/support/linear/linear_rig.h"

namespace tenon {

constexpr std::string_view kFloat8Formats[] = {"f8_32", "f8_64", "f8_128"};
// All that a kernel takes; one with integer products has no FP8.
inline std::vector<std::string_view> quant_formats_of(std::string_view kernel) {
  std::vector<std::string_view> names;
  for (const BlockScales& each : kBlockScales) {
    if (kernel != "int8" || each.codes != BlockCodes::floats) names.push_back(each.format);
  }
  return names;
}
// Whether levels are no short fractions: then one with integer products rounds them.
inline bool has_long_levels(std::string_view format) {
  return format.starts_with("nf4") || format.starts_with("fp4");
}
// Those whose values a kernel takes as they are.
inline std::vector<std::string_view> exact_formats_of(std::string_view kernel) {
  std::vector<std::string_view> names = quant_formats_of(kernel);
  if (kernel == "int8") std::erase_if(names, has_long_levels);
  return names;
}

// `values` or a few more: whole blocks of a format.
inline uint32_t whole_blocks(std::string_view format, uint32_t values) {
  const uint32_t block = find_quant_format(format)->elements;
  return (values + block - 1) / block * block;
}

// A weight [n_out, k_in] as a GGUF file has it, its blocks starting at any byte.
struct QuantWeight {
  std::string format;
  const QuantFormat& blocks;
  uint32_t n_out, k_in;
  std::vector<std::byte> bytes;
  uint32_t misalignment;
  TensorView tensor;

  QuantWeight(std::string_view name, uint32_t rows, uint32_t columns, uint64_t seed,
              uint32_t misaligned_by = 0)
      : format(name),
        blocks(*find_quant_format(name)),
        n_out(rows),
        k_in(columns),
        misalignment(misaligned_by) {
    const std::vector<float> noise = random_values(seed, size_t{rows} * columns / 2 + 1);
    bytes.resize(misalignment + rows * blocks.row_bytes(columns));
    for (size_t i = misalignment; i < bytes.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &noise[(i - misalignment) % noise.size()], 4);
      bytes[i] = static_cast<std::byte>(bits >> 9);
    }
    for (uint32_t n = 0; n < rows; ++n) {
      for (uint32_t b = 0; b < block_count(); ++b) {
        set_scale(n, b, sdk::float_to_f16(0.01f + 0.02f * noise[(n + b) % noise.size()]));
        set_minimum(n, b, sdk::float_to_f16(0.05f * noise[(n + 2 * b + 1) % noise.size()]));
        set_zero(n, b, noise[(n + 3 * b + 1) % noise.size()]);
      }
    }
    tensor.data = bytes.data() + misalignment;
    tensor.dtype = DType::u8;
    tensor.rank = 2;
    tensor.shape[0] = n_out;
    tensor.shape[1] = tensor.stride[0] = blocks.row_bytes(k_in);
  }
  QuantWeight(const QuantWeight&) = delete;
  QuantWeight& operator=(const QuantWeight&) = delete;

  uint32_t block_count() const { return k_in / blocks.elements; }
  std::byte* block(uint32_t row, uint32_t index) {
    return bytes.data() + misalignment + (size_t{row} * block_count() + index) * blocks.bytes;
  }
  void set_scale(uint32_t row, uint32_t index, uint16_t half) {
    const float scale = sdk::f16_to_float(half);
    const BlockScales& own = block_scales_of(format);
    std::byte* const to = block(row, index) + own.at;
    switch (own.scale) {
      case BlockScale::power:
        *to = static_cast<std::byte>(scale == 0 ? 0 : 127 + std::ilogb(scale));
        break;
      case BlockScale::f32:
        std::memcpy(to, &scale, 4);
        break;
      case BlockScale::nibbles:
        for (uint32_t i = 0; i < 4; ++i) {
          std::byte& top = to[1 + 2 * i];
          top = (top & std::byte{15}) | static_cast<std::byte>((half >> (4 * i) & 15) << 4);
        }
        break;
      case BlockScale::f16:
      case BlockScale::f16x2:
        std::memcpy(to, &half, 2);
    }
  }
  // Where the format has one: a whole number that a code may be.
  void set_zero(uint32_t row, uint32_t index, float noise) {
    if (!format.starts_with("u")) return;
    const int levels = 1 << (format[1] - '0');
    const uint16_t half =
        sdk::float_to_f16(std::floor((noise + 1) / 2 * static_cast<float>(levels)));
    std::memcpy(block(row, index) + 2, &half, 2);
  }
  // Where the format has one.
  void set_minimum(uint32_t row, uint32_t index, uint16_t half) {
    const BlockScales& own = block_scales_of(format);
    if (own.scale != BlockScale::f16x2 || format.starts_with("u")) return;
    std::memcpy(block(row, index) + own.at + 2, &half, 2);
  }
  // Whether a product of 127s needs more bits than f32 has, as levels that are no short fractions
  // do.
  bool has_long_products() const { return blocks.elements == 256 || has_long_levels(format); }
  WeightView view() const {
    return {.format = format, .name = "w", .n_out = n_out, .k_in = k_in, .parts = {&tensor, 1}};
  }

  // What the bytes stand for, as the reader of checkpoints has it.
  std::vector<float> values() {
    std::vector<float> out(size_t{n_out} * k_in);
    dequantize_row(blocks, block(0, 0), out.size(), out.data());
    return out;
  }
};

}  // namespace tenon
