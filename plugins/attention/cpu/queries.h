// Queries as products take them, and what products with quantised rows of K lack to be scores.
#pragma once

#include "plugins/attention/cpu/kernels.h"
#include "plugins/attention/cpu/kv_tile.h"
#include "plugins/attention/cpu/softmax.h"

namespace tenon::attention_cpu {
namespace {

inline Span visible(const LayerTask& task, uint32_t row) {
  return {task.seen[row].low, task.seen[row].high};
}

// One query, padded_k(k_dim) floats: scaled, in base 2 unless a soft cap comes in between; zero
// after the end. Returns its sum where E is shifted.
template <class E>
float load_query(const LayerTask& task, uint32_t row, uint64_t head, float* to) {
  const F32 scale = simd::set1(task.soft_cap != 0.0f ? task.scale : task.scale * kLog2OfE);
  const float* from = task.q + (uint64_t{row} * task.query_heads + head) * task.k_dim;
  F32 sum = simd::zero();
  for (uint32_t d = 0; d < padded_k(task.k_dim); d += simd::kLanes) {
    F32 value = simd::zero();
    if (d < task.k_dim) {
      const uint32_t left = task.k_dim - d;
      value = simd::mul(
          left < simd::kLanes ? simd::load_first(from + d, left) : simd::load(from + d), scale);
    }
    simd::store(to + d, value);
    sum = simd::add(sum, value);
  }
  if constexpr (E::kShifted) return simd::reduce_add(sum);
  return 0;
}

// Products of q and a tile's quantised elements become scores.
template <class E>
void scale_scores(const TileScales& scales, float query_sum, float* scores) {
#pragma GCC unroll 16
  for (uint32_t t = 0; t < kTileTokens; t += simd::kLanes) {
    F32 score = simd::mul(simd::load(scores + t), simd::load(scales.k_scale + t));
    if constexpr (E::kShifted) {
      score = simd::fma(simd::set1(query_sum), simd::load(scales.k_least + t), score);
    }
    simd::store(scores + t, score);
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
