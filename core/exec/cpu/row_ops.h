// The small operations between kernels, on one row or one head.
//
// Compiled once for each instruction set, from one text and with sums in one order: the bits do
// not depend on the instruction set.
#pragma once

#include <tenon/host.h>

#include <cstdint>

namespace tenon {

struct RowOps {
  // out [count] = x / sqrt(mean(x²) + eps) · scale (arXiv:1910.07467). May work in place.
  void (*rms_norm)(const float* x, const float* scale, uint32_t count, float eps, float* out);
  // Rotates the pairs (head[i], head[i + half]) by the angles [half] (arXiv:2104.09864).
  void (*rotate_halves)(const float* cosine, const float* sine, uint32_t half, float* head);
  // What epilogues do with finished products, for kernels that lack them: y [count] += p,
  // y = silu(y) · p, y = gelu_tanh(y) · p.
  void (*add)(float* y, const float* p, uint32_t count);
  void (*silu_mul)(float* y, const float* p, uint32_t count);
  void (*gelu_mul)(float* y, const float* p, uint32_t count);
};

// The widest that `isa` allows.
const RowOps& row_ops(CpuFeatures isa);

}  // namespace tenon
