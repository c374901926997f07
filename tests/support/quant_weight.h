// Weights in quantised formats for tests, made from random numbers.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/half.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/quant_format.h"
#include "tests/support/linear_rig.h"

namespace tenon {

constexpr std::string_view kQuantFormats[] = {"q8_0", "q4_0", "q4_1", "q5_0",
                                              "q5_1", "q6_k", "q4_k", "q5_k"};

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
    std::memcpy(block(row, index) + (format == "q6_k" ? 208 : 0), &half, 2);
  }
  // Where the format has one.
  void set_minimum(uint32_t row, uint32_t index, uint16_t half) {
    if (format == "q4_1" || format == "q5_1" || format == "q4_k" || format == "q5_k") {
      std::memcpy(block(row, index) + 2, &half, 2);
    }
  }
  // Whether a product of 127s needs more bits than f32 has.
  bool has_long_products() const { return blocks.elements == 256; }
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
