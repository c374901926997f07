#include "core/exec/ref/math.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/model/tensors/weight_rows.h"

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

void layer_norm(const float* x, std::span<const float> scale, std::span<const float> bias,
                float eps, float* out) {
  const auto size = static_cast<double>(scale.size());
  double mean = 0, variance = 0;
  for (size_t i = 0; i < scale.size(); ++i) mean += x[i] / size;
  for (size_t i = 0; i < scale.size(); ++i) variance += (x[i] - mean) * (x[i] - mean) / size;
  const double factor = 1.0 / std::sqrt(variance + eps);
  for (size_t i = 0; i < scale.size(); ++i) {
    const double shift = bias.empty() ? 0.0 : bias[i];
    out[i] = static_cast<float>((x[i] - mean) * factor * scale[i] + shift);
  }
}

namespace {

void turn(float cosine, float sine, float& first, float& second) {
  const double a = first;
  const double b = second;
  first = static_cast<float>(a * cosine - b * sine);
  second = static_cast<float>(b * cosine + a * sine);
}

}  // namespace

void rotate_halves(std::span<const float> cosine, std::span<const float> sine, float* head) {
  const size_t half = cosine.size();
  for (size_t i = 0; i < half; ++i) turn(cosine[i], sine[i], head[i], head[i + half]);
}

void rotate_pairs(std::span<const float> cosine, std::span<const float> sine, float* head) {
  for (size_t i = 0; i < cosine.size(); ++i) {
    turn(cosine[i], sine[i], head[2 * i], head[2 * i + 1]);
  }
}

float activate(Activation activation, float value) {
  const double x = value;
  switch (activation) {
    case Activation::silu:
      return static_cast<float>(x / (1.0 + std::exp(-x)));
    case Activation::gelu:
      return static_cast<float>(0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)));
    case Activation::gelu_tanh:
      return static_cast<float>(
          0.5 * x *
          (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x))));
    case Activation::relu:
      return std::max(value, 0.0f);
    case Activation::relu_squared:
      return x > 0.0 ? static_cast<float>(x * x) : 0.0f;
    case Activation::xielu:
      return value;
  }
  return value;
}

float xielu(const Xielu& by, float value) {
  const double x = value;
  const double curved =
      x > 0.0 ? by.alpha_p * x * x : by.alpha_n * (std::expm1(std::min<double>(x, by.eps)) - x);
  return static_cast<float>(curved + by.beta * x);
}

void gate_by(Activation activation, float limit, std::span<const float> up, float* gate) {
  for (size_t i = 0; i < up.size(); ++i) {
    const float opened = activate(activation, gate[i]);
    gate[i] =
        limit > 0.0f ? std::min(opened, limit) * std::clamp(up[i], -limit, limit) : opened * up[i];
  }
}

void clip(std::span<float> values, float limit) {
  for (float& value : values) value = std::clamp(value, -limit, limit);
}

float soft_cap(float x, float cap) {
  return static_cast<float>(cap * std::tanh(double{x} / cap));
}

}  // namespace tenon::ref
