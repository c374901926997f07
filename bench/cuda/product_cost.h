// What formulas of kernels have in common.
#pragma once

#include "bench/cuda/kernel_cost.h"

namespace tenon::cuda::bench {

// The kernels' own constants; were one another, the emulator would count otherwise.
inline constexpr uint64_t kRowThreads = 128;
inline constexpr uint64_t kMultiplyThreads = 128;
inline constexpr uint64_t kColumns = 64;
inline constexpr uint64_t kStep = 32;
inline constexpr uint64_t kPiece = 1024;
inline constexpr uint64_t kFewRows = 16;
inline constexpr uint64_t kFewColumns = 16;
inline constexpr uint64_t kFewQuantTileRows = 8;  // however few rows there are
inline constexpr uint64_t kManyRows = 64;
inline constexpr uint64_t kWord = 4;

inline uint64_t bytes_of(Input type) {
  return type == Input::f32 ? 4 : 2;
}
inline uint64_t bytes_of(CacheType type) {
  return type == CacheType::f32 ? 4 : 2;
}
inline uint64_t ceiling(uint64_t count, uint64_t of) {
  return (count + of - 1) / of;
}
inline uint64_t number(int value) {
  return static_cast<uint64_t>(value);
}

// What is asked for once moves once.
inline Cost once(uint64_t read, uint64_t written) {
  return {read, written, read + written, 0};
}
// Reads that cost `moved` bytes and are asked for `issued` of them.
inline Cost reads(uint64_t moved, uint64_t issued) {
  return {moved, 0, issued, 0};
}

// What tiles of so many rows read of W, its scales and its zeros for `rows` rows, and what they
// compute.
inline Cost tiles_of_rows(const MultiplyCall& call, const QuantScales& quant, uint64_t rows,
                          uint64_t rows_of_tile) {
  const uint64_t n = number(call.n_out);
  const uint64_t k = ceiling(number(call.k_in), kStep) * kStep;
  const uint64_t tiles = ceiling(rows, rows_of_tile);
  const uint64_t w_bytes =
      n * (quant.bits == 0 ? 2 * k : static_cast<uint64_t>(quant_stride(call.k_in, quant.bits)));
  Cost cost = reads(w_bytes, tiles * w_bytes);
  cost.operations = 2 * tiles * rows_of_tile * ceiling(n, kColumns) * kColumns * k;
  if (quant.bits == 0) return cost;
  const uint64_t groups = ceiling(number(call.k_in), number(quant.group));
  const uint64_t row_warps = rows_of_tile / 16;
  // Of a warp, 16 sums need a column's scale, and four lanes' weights its zero.
  const uint64_t segments = ceiling(number(call.k_in), number(quant_segment(quant.group)));
  const uint64_t scale_bytes = number(quant_scale_bytes(quant.floats));
  cost += reads(n * groups * scale_bytes, tiles * row_warps * n * segments * 16 * scale_bytes);
  if (quant.zeros != nullptr) cost += reads(n * groups, tiles * row_warps * n * segments * 4);
  return cost;
}

}  // namespace tenon::cuda::bench
