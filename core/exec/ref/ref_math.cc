#include "core/exec/ref/ref_math.h"

#include <cmath>
#include <vector>

#include "core/model/weight_rows.h"

namespace tenon::ref {

void multiply(const Weight& weight, std::span<const float> bias, const float* x, uint32_t rows,
              float* y) {
  std::vector<float> w(weight.k_in);
  for (uint32_t n = 0; n < weight.n_out; ++n) {
    read_row(weight, n, w.data());
    for (uint32_t row = 0; row < rows; ++row) {
      const float* x_row = x + uint64_t{row} * weight.k_in;
      double sum = 0;
      for (uint32_t k = 0; k < weight.k_in; ++k) sum += double{x_row[k]} * w[k];
      if (!bias.empty()) sum += bias[n];
      y[uint64_t{row} * weight.n_out + n] = static_cast<float>(sum);
    }
  }
}

void rms_norm(const float* x, std::span<const float> scale, float eps, float* out) {
  double squares = 0;
  for (size_t i = 0; i < scale.size(); ++i) squares += double{x[i]} * x[i];
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(scale.size()) + eps);
  for (size_t i = 0; i < scale.size(); ++i) out[i] = static_cast<float>(x[i] * factor * scale[i]);
}

void rotate_halves(std::span<const float> cosine, std::span<const float> sine, float* head) {
  const size_t half = cosine.size();
  for (size_t i = 0; i < half; ++i) {
    const double a = head[i];
    const double b = head[i + half];
    head[i] = static_cast<float>(a * cosine[i] - b * sine[i]);
    head[i + half] = static_cast<float>(b * cosine[i] + a * sine[i]);
  }
}

float silu(float x) {
  return static_cast<float>(x / (1.0 + std::exp(-double{x})));
}

}  // namespace tenon::ref
