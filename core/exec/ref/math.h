// The arithmetic of the oracle: plain loops over f32 with sums in double.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/model/model.h"

namespace tenon::ref {

// y [rows, n_out] = x [rows, k_in] · Wᵀ + bias. Bias [n_out] or empty.
void multiply(const Weight& weight, std::span<const float> bias, const float* x, uint32_t rows,
              float* y);
// In place of it, for who wants to see what enters a product or has the weights at hand.
using Multiply = std::function<void(const Weight& weight, std::span<const float> bias,
                                    const float* x, uint32_t rows, float* y)>;
// out [size] = x / sqrt(mean(x²) + eps) · scale (arXiv:1910.07467). May work in place.
void rms_norm(const float* x, std::span<const float> scale, float eps, float* out);
// out [size] = (x - mean(x)) / sqrt(var(x) + eps) · scale + bias (arXiv:1607.06450). Bias [size] or
// empty. May work in place.
void layer_norm(const float* x, std::span<const float> scale, std::span<const float> bias,
                float eps, float* out);
// Rotates the pairs (x[i], x[i + half]) of one head by the given angles [half] (arXiv:2104.09864,
// in the order of GPT-NeoX).
void rotate_halves(std::span<const float> cosine, std::span<const float> sine, float* head);
// Rotates the pairs (x[2i], x[2i + 1]), the order of the paper.
void rotate_pairs(std::span<const float> cosine, std::span<const float> sine, float* head);
// silu: x · σ(x) (arXiv:1702.03118); gelu: x · Φ(x), or its approximation by tanh
// (arXiv:1606.08415); relu squared (arXiv:2109.08668). xielu changes nothing here: its numbers are
// those of a layer.
float activate(Activation activation, float x);
// As at Xielu (core/model/blocks/mlp.h).
float xielu(const Xielu& by, float x);
// gate [up.size()] = act(gate) · up; above a limit of 0, min(act(gate), limit) · clamp(up, ±limit).
void gate_by(Activation activation, float limit, std::span<const float> up, float* gate);
// Cuts values off at ±limit.
void clip(std::span<float> values, float limit);
// cap · tanh(x / cap) (arXiv:2408.00118)
float soft_cap(float x, float cap);

}  // namespace tenon::ref
