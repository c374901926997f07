// Online softmax (Milakov and Gimelshein, 2018) in base 2: scores arrive multiplied by log2(e).
#pragma once

#include <tenon/sdk/simd.h>

#include "plugins/attention/cpu/kernels.h"

namespace tenon::attention_cpu {
namespace {

namespace simd = sdk::simd;
using simd::F32;

inline constexpr float kLog2OfE = 1.44269504f;

struct Span {
  uint32_t low = 0;
  uint32_t high = 0;
  bool empty() const { return low >= high; }
};
constexpr uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}
constexpr uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}
constexpr Span intersect(Span a, Span b) {
  return {larger(a.low, b.low), smaller(a.high, b.high)};
}

// A softmax under way: out = sum / weight once it is finished.
struct SoftmaxState {
  float* sum;  // [padded_v]
  float* maximum;
  float* weight;
};

// Takes up `other`, which covers later positions.
inline void merge(const SoftmaxState& state, const float* sum, float maximum, float weight,
                  uint32_t columns) {
  const float both = *state.maximum > maximum ? *state.maximum : maximum;
  const F32 shift = simd::exp2_nonpositive(simd::set1(*state.maximum - both));
  const F32 other_shift = simd::exp2_nonpositive(simd::set1(maximum - both));
  for (uint32_t d = 0; d < columns; d += simd::kLanes) {
    const F32 mine = simd::mul(simd::load(state.sum + d), shift);
    simd::store(state.sum + d, simd::fma(simd::load(sum + d), other_shift, mine));
  }
  *state.weight = *state.weight * simd::first(shift) + weight * simd::first(other_shift);
  *state.maximum = both;
}

// What the weights of a finished softmax add up to with a sink among them, a score that has no
// value. Where it is above all others by so much that they vanish, that is infinite.
inline float with_sink(float weight, float maximum, float sink) {
  const float score = sink * kLog2OfE;
  const float below = score <= maximum ? score - maximum : maximum - score;
  const float factor = simd::first(simd::exp2_nonpositive(simd::set1(below)));
  return weight + (score <= maximum ? factor : 1.0f / factor);
}

// `paired`: the sums are even and odd elements of 2·kLanes each.
inline void write_out(const float* sum, float weight, uint32_t dim, bool paired, float* out) {
  const F32 divisor = simd::set1(weight);
  if (paired) {
    for (uint32_t d = 0; d < dim; d += 2 * simd::kLanes) {
      F32 first;
      F32 second;
      simd::interleave(simd::div(simd::load(sum + d), divisor),
                       simd::div(simd::load(sum + d + simd::kLanes), divisor), first, second);
      simd::store(out + d, first);
      simd::store(out + d + simd::kLanes, second);
    }
    return;
  }
  for (uint32_t d = 0; d < dim; d += simd::kLanes) {
    const F32 value = simd::div(simd::load(sum + d), divisor);
    if (d + simd::kLanes <= dim) {
      simd::store(out + d, value);
    } else {
      simd::store_first(out + d, value, dim - d);
    }
  }
}

inline F32 capped(F32 score, float soft_cap) {
  const F32 cap = simd::set1(soft_cap);
  return simd::mul(simd::mul(cap, simd::set1(kLog2OfE)), simd::tanh(simd::div(score, cap)));
}
// Lanes of vector v of a tile outside `seen` become `other`.
inline F32 only_seen(F32 value, uint32_t v, Span seen, F32 other) {
  const F32 lane =
      simd::add(simd::lane_numbers(), simd::set1(static_cast<float>(v * simd::kLanes)));
  const F32 below_high =
      simd::select(simd::less(lane, simd::set1(static_cast<float>(seen.high))), value, other);
  return simd::select(simd::less(lane, simd::set1(static_cast<float>(seen.low))), other,
                      below_high);
}

inline constexpr uint32_t kTileVectors = kTileTokens / simd::kLanes;

// What falls with distance: `slope` for each entry, in base 2; the tile's first one is `from` the
// query's own.
struct Slope {
  float slope = 0;
  float from = 0;
};
// Adds it to the scores of a tile, which are capped before that.
inline void bias_scores(float soft_cap, Slope by, float* scores) {
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kTileVectors; ++v) {
    F32 score = simd::load(scores + v * simd::kLanes);
    if (soft_cap != 0.0f) score = capped(score, soft_cap);
    const F32 distance =
        simd::add(simd::lane_numbers(), simd::set1(by.from + static_cast<float>(v * simd::kLanes)));
    simd::store(scores + v * simd::kLanes, simd::fma(distance, simd::set1(by.slope), score));
  }
}

// The largest score of a tile that a query sees; caps the scores, in place, and makes those that it
// does not see -infinity. `seen` is relative to the tile.
inline float largest_score(float soft_cap, float* scores, Span seen) {
  const F32 nothing = simd::set1(-__builtin_inff());
  const bool cut = seen.low > 0 || seen.high < kTileTokens;
  F32 highest = nothing;
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kTileVectors; ++v) {
    F32 score = simd::load(scores + v * simd::kLanes);
    if (soft_cap != 0.0f) score = capped(score, soft_cap);
    if (cut) score = only_seen(score, v, seen, nothing);
    if (cut || soft_cap != 0.0f) simd::store(scores + v * simd::kLanes, score);
    highest = simd::max(highest, score);
  }
  return simd::reduce_max(highest);
}

// Scores of one query over one tile become weights, in place. Returns their sum.
inline float weigh_scores(float* scores, float maximum) {
  F32 weights = simd::zero();
#pragma GCC unroll 16
  for (uint32_t v = 0; v < kTileVectors; ++v) {
    const F32 score = simd::load(scores + v * simd::kLanes);
    const F32 weight = simd::exp2_nonpositive(simd::sub(score, simd::set1(maximum)));
    simd::store(scores + v * simd::kLanes, weight);
    weights = simd::add(weights, weight);
  }
  return simd::reduce_add(weights);
}

// `count` softmaxes see scores of at most `found`: their maxima and weights are brought up to date,
// and `factors` become what their sums must be multiplied with.
inline void raise_maxima(const float* found, float* maxima, float* weights, float* factors,
                         uint32_t count) {
  for (uint32_t i = 0; i < count; i += simd::kLanes) {
    const uint32_t left = count - i;
    const F32 old = simd::load_first(maxima + i, left);
    const F32 raised = simd::max(simd::load_first(found + i, left), old);
    const F32 shift = simd::exp2_nonpositive(simd::sub(old, raised));
    const F32 factor = simd::select(simd::less(old, raised), shift, simd::set1(1.0f));
    simd::store_first(maxima + i, raised, left);
    simd::store_first(weights + i, simd::mul(simd::load_first(weights + i, left), factor), left);
    simd::store_first(factors + i, factor, left);
  }
}

inline void multiply(float* values, float factor, uint32_t count) {
  for (uint32_t d = 0; d < count; d += simd::kLanes) {
    simd::store(values + d, simd::mul(simd::load(values + d), simd::set1(factor)));
  }
}

}  // namespace
}  // namespace tenon::attention_cpu
