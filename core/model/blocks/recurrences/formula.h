// What formulas of recurrences share (RecurrenceKind::advance).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "core/model/blocks/recurrence.h"

namespace tenon {

// log(1 + eˣ), without overflow.
inline double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
inline double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
inline float rounded(double x) {
  return static_cast<float>(x);
}
inline float silu(float x) {
  return rounded(double{x} / (1.0 + std::exp(-double{x})));
}

// bias + Σⱼ conv[·, j] · x[t - width + 1 + j] by the first two parameters, where input(channel) is
// x[t]. The state begins with the last width - 1 rows of x. finish(channel, sum) takes the sums.
template <typename Input, typename Finish>
void convolve(const RecurrentRow& row, size_t channels, size_t width, Input input, Finish finish) {
  const std::vector<float>&conv = row.parameters[0], &bias = row.parameters[1];
  const size_t before = width - 1;
  float* last = row.state;  // [width - 1, channels]
  for (size_t channel = 0; channel < channels; ++channel) {
    const float now = input(channel);
    double sum = bias[channel];
    for (size_t j = 0; j < before; ++j) {
      sum += double{conv[channel * width + j]} * last[j * channels + channel];
    }
    sum += double{conv[channel * width + before]} * now;
    finish(channel, sum);
    for (size_t j = 0; j + 1 < before; ++j) {
      last[j * channels + channel] = last[(j + 1) * channels + channel];
    }
    if (before > 0) last[(before - 1) * channels + channel] = now;
  }
}

// silu of that, of the first input; `out` may be the input.
inline void convolve_silu(const RecurrentRow& row, size_t channels, size_t width, float* out) {
  convolve(
      row, channels, width, [&](size_t channel) { return row.inputs[0][channel]; },
      [&](size_t channel, double sum) { out[channel] = silu(rounded(sum)); });
}
inline std::vector<float> convolved(const RecurrentRow& row, size_t channels, size_t width) {
  std::vector<float> out(channels);
  convolve_silu(row, channels, width, out.data());
  return out;
}

// Checkpoints keep log(-a), which is what random numbers stand for.
inline void settle_decays(std::span<std::vector<float>> parameters) {
  for (float& a : parameters[2]) a = -std::exp(a);
}

}  // namespace tenon
