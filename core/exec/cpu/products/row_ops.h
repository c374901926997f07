// The small operations between kernels, on one row or one head.
//
// Compiled once for each instruction set, from one text and with sums in one order: the bits do
// not depend on the instruction set.
#pragma once

#include <tenon/host.h>

#include <cstdint>

#include "core/model/plan/model_plan.h"

namespace tenon {

struct RowOps {
  // out [count] = x / sqrt(mean(x²) + eps) · scale (arXiv:1910.07467). May work in place.
  void (*rms_norm)(const float* x, const float* scale, uint32_t count, float eps, float* out);
  // out [count] = (x - mean(x)) / sqrt(var(x) + eps) · scale + bias (arXiv:1607.06450); bias may be
  // null. May work in place.
  void (*layer_norm)(const float* x, const float* scale, const float* bias, uint32_t count,
                     float eps, float* out);
  // Rotates the pairs (head[i], head[i + half]) by the angles [half] (arXiv:2104.09864).
  void (*rotate_halves)(const float* cosine, const float* sine, uint32_t half, float* head);
  // As above, the pairs (head[2i], head[2i + 1]).
  void (*rotate_pairs)(const float* cosine, const float* sine, uint32_t half, float* head);
  // What epilogues do with finished products, for kernels that lack them: y [count] += p,
  // y = silu(y) · p, y = gelu_tanh(y) · p.
  void (*add)(float* y, const float* p, uint32_t count);
  void (*silu_mul)(float* y, const float* p, uint32_t count);
  void (*gelu_mul)(float* y, const float* p, uint32_t count);
  // y [count] *= σ(p)
  void (*sigmoid_mul)(float* y, const float* p, uint32_t count);
  // y [count] += factor · p
  void (*add_scaled)(float* y, const float* p, float factor, uint32_t count);
  // y [count] = act(y), times p where that is not null.
  void (*activate)(Activation activation, float* y, const float* p, uint32_t count);
  // y [count] = xIELU of y, as at Xielu (core/model/blocks/mlp.h).
  void (*xielu)(const Xielu& by, float* y, uint32_t count);
  // y [count] = min(y, limit) · σ(alpha · min(y, limit)) · (clamp(p, ±limit) + 1)
  void (*clamped_swiglu)(float* y, const float* p, float alpha, float limit, uint32_t count);
  // y [count] = min(act(y), limit) · clamp(p, ±limit)
  void (*limited_gate)(Activation activation, float* y, const float* p, float limit,
                       uint32_t count);
  // y [count] is held in [-limit, limit].
  void (*clip)(float* y, float limit, uint32_t count);
  // Σ_h weights[h] · max(0, q[h] · k), with q [heads, dim] and k [dim] (IndexPlan).
  float (*index_score)(const float* q, const float* weights, const float* k, uint32_t heads,
                       uint32_t dim);
  // y [count] = cap · tanh(factor · y / cap); without the cap where that is 0.
  void (*scale_and_cap)(float* y, float factor, float cap, uint32_t count);
};

// The widest that `isa` allows.
const RowOps& row_ops(CpuFeatures isa);

}  // namespace tenon
