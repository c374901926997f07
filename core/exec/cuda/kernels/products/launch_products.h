// What launches of products have in common.
#pragma once

#include <algorithm>
#include <bit>

#include "core/exec/cuda/kernels/launch_config.h"
#include "core/exec/cuda/kernels/products/multiply_quant.cuh"
#include "core/exec/cuda/kernels/products/multiply_some.cuh"

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

// Whether there are enough blocks of so many rows and kWideBlockColumns.
inline bool has_wide_blocks(const MultiplyCall& call, uint32_t rows) {
  const uint64_t down = (call.rows + rows - 1) / rows;
  const auto across =
      static_cast<uint64_t>((call.n_out + kWideBlockColumns - 1) / kWideBlockColumns);
  return down * across >= kEnoughWideBlocks;
}

// As many lanes as K has pieces, a block may have, and there is memory for, where each takes so
// many bytes of it: as few as make no more rounds.
inline int some_lanes(const MultiplyCall& call, int most_lanes, int lane_bytes) {
  const int pieces = (call.k_in + kPieceElements - 1) / kPieceElements;
  const int most =
      std::clamp(std::min(most_lanes, shared_limit() / lane_bytes), 1, std::max(pieces, 1));
  const int rounds = (pieces + most - 1) / most;
  return (pieces + rounds - 1) / std::max(rounds, 1);
}

template <typename T>
LaunchConfig some_config(const char* name, const MultiplyCall& call, int lanes, int lane_bytes,
                         void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = (call.rows + T::kRows - 1) / T::kRows *
                  static_cast<uint32_t>((call.n_out + T::kColumns - 1) / T::kColumns);
  config.block.x = static_cast<uint32_t>(lanes * T::kThreads);
  config.shared_bytes = static_cast<uint32_t>(lanes * lane_bytes);
  return config;
}

// Whether y can be written two elements at a time.
inline bool has_pairs(const MultiplyCall& call) {
  return reinterpret_cast<uintptr_t>(call.y) % 8 == 0 && call.y_stride % 2 == 0;
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
  q.segment = quant_segment(quant.group);
  const auto group = static_cast<uint32_t>(quant.group);
  q.group_log = std::has_single_bit(group) ? std::countr_zero(group) : -1;
  q.rows = quant.rows;
  q.aligned = reinterpret_cast<uintptr_t>(quant.scales) % 16 == 0 &&
              reinterpret_cast<uintptr_t>(quant.zeros) % 16 == 0 && quant.rows % 16 == 0;
  return q;
}

}  // namespace tenon::cuda
