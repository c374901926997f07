// What launches of products have in common.
#pragma once

#include "core/exec/cuda/kernels/launch_config.h"
#include "core/exec/cuda/kernels/multiply_quant.cuh"

namespace tenon::cuda {

// Rows of a block: many rows share what was read of W, few would leave most of a tile empty.
inline constexpr uint32_t kFewRows = 16;
inline constexpr uint32_t kManyRows = 64;

// Of all stages of a column of W in bf16.
inline constexpr uint32_t kColumnBytes = kStages * kRowStride * 2;

// `column_bytes` as that.
inline LaunchConfig tiles_config(const char* name, const MultiplyCall& c, uint32_t tile_rows,
                                 uint32_t column_bytes, void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = static_cast<uint32_t>((c.n_out + kColumns - 1) / kColumns);
  config.grid.y = (c.rows + tile_rows - 1) / tile_rows;
  config.block.x = kMultiplyThreads;
  config.shared_bytes = kStages * tile_rows * kRowStride * 2 + kColumns * column_bytes;
  return config;
}

inline constexpr int kFewBlockBytes = 96 * 1024;  // of shared memory, which every device has

constexpr int up_to(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

template <typename T>
Factors<T> factors(const MultiplyCall& c) {
  Factors<T> f;
  f.x = Global<const T>(static_cast<const T*>(c.x));
  f.bias = Global<const float>(c.bias);
  f.y = Global<float>(c.y);
  f.rows = c.rows;
  f.n_out = c.n_out;
  f.k_in = c.k_in;
  f.x_stride = c.x_stride;
  f.w_stride = c.w_stride;
  f.y_stride = c.y_stride;
  f.add = c.add;
  f.factor = c.factor;
  return f;
}

template <typename T>
Factors<T> factors_with_w(const MultiplyCall& call) {
  Factors<T> f = factors<T>(call);
  f.w = Global<const T>(static_cast<const T*>(call.w));
  return f;
}

inline QuantFactors quant_factors(const MultiplyCall& call, const QuantScales& quant) {
  QuantFactors q;
  q.f = factors<BFloat16>(call);
  q.w = Global<const uint8_t>(static_cast<const uint8_t*>(call.w));
  q.scales = CodeScales(quant);
  q.zeros = Global<const uint8_t>(quant.zeros);
  q.groups = quant.groups;
  q.group = quant.group;
  q.rows = quant.rows;
  q.aligned = reinterpret_cast<uintptr_t>(quant.scales) % 16 == 0 &&
              reinterpret_cast<uintptr_t>(quant.zeros) % 16 == 0 && quant.rows % 16 == 0;
  return q;
}

}  // namespace tenon::cuda
