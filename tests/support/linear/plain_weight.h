// Weights in f32, f16 or bf16 for tests of linear kernels.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/half.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/linear/linear_rig.h"

namespace tenon {

// A weight [n_out, k_in] as a checkpoint has it, starting at any byte.
struct PlainWeight {
  std::string format;
  uint32_t n_out, k_in;
  std::vector<float> values;  // what the format holds, widened
  std::vector<std::byte> bytes;
  TensorView tensor;

  PlainWeight(std::string_view name, uint32_t rows, uint32_t columns, uint64_t seed,
              uint32_t misalignment = 0)
      : format(name), n_out(rows), k_in(columns) {
    values = random_values(seed, size_t{rows} * columns);
    const size_t size = format == "f32" ? 4 : 2;
    bytes.resize(misalignment + values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = 0;
      if (format == "f16") values[i] = sdk::f16_to_float(half = sdk::float_to_f16(values[i]));
      if (format == "bf16") values[i] = sdk::bf16_to_float(half = sdk::float_to_bf16(values[i]));
      std::memcpy(bytes.data() + misalignment + i * size,
                  size == 4 ? static_cast<const void*>(&values[i]) : &half, size);
    }
    tensor.data = bytes.data() + misalignment;
    tensor.dtype = format == "f32" ? DType::f32 : (format == "f16" ? DType::f16 : DType::bf16);
    tensor.rank = 2;
    tensor.shape[0] = n_out;
    tensor.shape[1] = k_in;
    tensor.stride[0] = k_in;
  }
  PlainWeight(const PlainWeight&) = delete;
  PlainWeight& operator=(const PlainWeight&) = delete;
  WeightView view() const {
    return {.format = format, .name = "w", .n_out = n_out, .k_in = k_in, .parts = {&tensor, 1}};
  }
};

inline std::vector<double> reference_product(const PlainWeight& weight, const std::vector<float>& x,
                                             uint32_t rows) {
  return reference_product(weight.values, weight.n_out, x, rows, weight.k_in);
}

// silu(x·gateᵀ) · (x·upᵀ)
inline std::vector<double> reference_gate(const PlainWeight& gate, const PlainWeight& up,
                                          const std::vector<float>& x, uint32_t rows) {
  std::vector<double> made = reference_product(gate, x, rows);
  const std::vector<double> u = reference_product(up, x, rows);
  for (size_t i = 0; i < made.size(); ++i) made[i] = made[i] / (1 + std::exp(-made[i])) * u[i];
  return made;
}

}  // namespace tenon
