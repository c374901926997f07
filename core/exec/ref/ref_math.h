// The arithmetic of the oracle: plain loops over f32 with sums in double.
#pragma once

#include <cstdint>
#include <span>

#include "core/model/model.h"

namespace tenon::ref {

// y [rows, n_out] = x [rows, k_in] · Wᵀ + bias. Bias [n_out] or empty.
void multiply(const Weight& weight, std::span<const float> bias, const float* x, uint32_t rows,
              float* y);
// out [size] = x / sqrt(mean(x²) + eps) · scale (arXiv:1910.07467). May work in place.
void rms_norm(const float* x, std::span<const float> scale, float eps, float* out);
// Rotates the pairs (x[i], x[i + half]) of one head by the given angles [half].
void rotate_halves(std::span<const float> cosine, std::span<const float> sine, float* head);
float silu(float x);

}  // namespace tenon::ref
