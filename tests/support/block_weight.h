// Weights in block formats (q8_0, q4_0) for tests, made from random numbers.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/half.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/linear_rig.h"

namespace tenon {

// A weight [n_out, k_in] as a GGUF file has it, its blocks starting at any byte.
struct BlockWeight {
  std::string format;
  uint32_t n_out, k_in;
  std::vector<std::byte> bytes;
  uint32_t misalignment;
  TensorView tensor;

  BlockWeight(std::string_view name, uint32_t rows, uint32_t columns, uint64_t seed,
              uint32_t misaligned_by = 0)
      : format(name), n_out(rows), k_in(columns), misalignment(misaligned_by) {
    const std::vector<float> noise = random_values(seed, size_t{rows} * columns / 2 + 1);
    bytes.resize(misalignment + size_t{rows} * columns / 32 * block_size());
    for (size_t i = misalignment; i < bytes.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &noise[(i - misalignment) % noise.size()], 4);
      bytes[i] = static_cast<std::byte>(bits >> 9);
    }
    for (uint32_t n = 0; n < rows; ++n) {
      for (uint32_t b = 0; b < columns / 32; ++b) {
        set_scale(n, b, sdk::float_to_f16(0.01f + 0.02f * noise[(n + b) % noise.size()]));
      }
    }
    tensor.data = bytes.data() + misalignment;
    tensor.dtype = DType::u8;
    tensor.rank = 2;
    tensor.shape[0] = n_out;
    tensor.shape[1] = tensor.stride[0] = k_in / 32 * block_size();
  }
  BlockWeight(const BlockWeight&) = delete;
  BlockWeight& operator=(const BlockWeight&) = delete;

  size_t block_size() const { return format == "q8_0" ? 34 : 18; }
  std::byte* block(uint32_t row, uint32_t index) {
    return bytes.data() + misalignment + (size_t{row} * (k_in / 32) + index) * block_size();
  }
  void set_scale(uint32_t row, uint32_t index, uint16_t half) {
    std::memcpy(block(row, index), &half, 2);
  }
  WeightView view() const {
    return {.format = format, .name = "w", .n_out = n_out, .k_in = k_in, .parts = {&tensor, 1}};
  }

  // What the bytes stand for, by the definition of the format.
  std::vector<float> values() {
    std::vector<float> out;
    for (uint32_t n = 0; n < n_out; ++n) {
      for (uint32_t b = 0; b < k_in / 32; ++b) {
        const std::byte* from = block(n, b);
        uint16_t half;
        std::memcpy(&half, from, 2);
        const float scale = sdk::f16_to_float(half);
        for (uint32_t i = 0; i < 32; ++i) {
          int q = static_cast<signed char>(from[2 + (format == "q8_0" ? i : i % 16)]);
          if (format == "q4_0") q = (i < 16 ? q & 15 : (q >> 4) & 15) - 8;
          out.push_back(scale * static_cast<float>(q));
        }
      }
    }
    return out;
  }
};

}  // namespace tenon
