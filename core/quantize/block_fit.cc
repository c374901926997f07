#include "core/quantize/block_fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/half.h"

namespace tenon::quantize {
namespace {

constexpr int kScaleSteps = 9;      // each way around the scale that the largest value asks for
constexpr float kScaleStep = 0.1f;  // of a code, at the largest value
constexpr int kMinimumSteps = 20;

struct WeightedSums {
  double w = 0, q = 0, qq = 0, x = 0, xq = 0, xx = 0;

  void add(double importance, double value, double code) {
    w += importance;
    q += importance * code;
    qq += importance * code * code;
    x += importance * value;
    xq += importance * value * code;
    xx += importance * value * value;
  }
};

}  // namespace

float put_half(float value, std::byte* to) {
  const uint16_t bits = f16_from_float(value);
  std::memcpy(to, &bits, 2);
  return float_from_f16(bits);
}

int code_of(float value, float scale, int low, int high) {
  if (scale == 0) return std::clamp(0, low, high);
  const float code =
      std::clamp(value / scale, static_cast<float>(low) - 0.5f, static_cast<float>(high) + 0.5f);
  return std::clamp(static_cast<int>(std::lround(code)), low, high);
}

void put_nibbles(std::span<const int, kNibbleBlock> codes, std::byte* to) {
  for (uint32_t i = 0; i < 16; ++i) {
    to[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  }
}

float fit_scale(std::span<const float> values, std::span<const float> importance, int low,
                int high) {
  float largest = 0;
  for (const float value : values) {
    if (std::fabs(value) > std::fabs(largest)) largest = value;
  }
  if (largest == 0) return 0;
  // The largest value may meet either end of the codes, so that the scale has either sign.
  float best = 0;
  double most = -1;
  for (const int end : {low, high}) {
    for (int step = -kScaleSteps; step <= kScaleSteps; ++step) {
      const float scale =
          largest / (static_cast<float>(end) + kScaleStep * static_cast<float>(step));
      if (!std::isfinite(scale)) continue;
      WeightedSums sums;
      for (size_t i = 0; i < values.size(); ++i) {
        sums.add(importance[i], values[i], code_of(values[i], scale, low, high));
      }
      // With the best scale for these codes, the error is Σ x² less this.
      const double gain = sums.qq > 0 ? sums.xq * sums.xq / sums.qq : 0;
      if (gain > most && sums.qq > 0) {
        most = gain;
        best = static_cast<float>(sums.xq / sums.qq);
      }
    }
  }
  return best;
}

ScaleAndMinimum fit_scale_and_minimum(std::span<const float> values,
                                      std::span<const float> importance, int most) {
  float low = 0, high = 0;
  for (const float value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (high <= low) return {};
  ScaleAndMinimum best;
  double least = INFINITY;
  for (int step = 0; step <= kMinimumSteps; ++step) {
    const float scale =
        (high - low) / (static_cast<float>(most) - 1.0f + kScaleStep * static_cast<float>(step));
    WeightedSums sums;
    for (size_t i = 0; i < values.size(); ++i) {
      sums.add(importance[i], values[i], code_of(values[i] - low, scale, 0, most));
    }
    const double determinant = sums.w * sums.qq - sums.q * sums.q;
    if (determinant <= 0) continue;
    double a = (sums.w * sums.xq - sums.x * sums.q) / determinant;
    double b = (sums.qq * sums.x - sums.q * sums.xq) / determinant;
    if (b > 0) {
      b = 0;
      a = sums.xq / sums.qq;
    }
    if (a <= 0) continue;
    const double error = sums.xx - 2 * (a * sums.xq + b * sums.x) + a * a * sums.qq +
                         2 * a * b * sums.q + b * b * sums.w;
    if (error < least) {
      least = error;
      best = {static_cast<float>(a), static_cast<float>(-b)};
    }
  }
  return best;
}

}  // namespace tenon::quantize
