#include "core/quantize/blocks/block_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/half.h"

namespace tenon::quantize {
namespace {

constexpr int kScaleSteps = 9;      // each way around the scale that the largest value asks for
constexpr float kScaleStep = 0.1f;  // of a code, at the largest value
constexpr int kMinimumSteps = 20;

constexpr size_t kAtOnce = 16;  // codes, in registers of any width

// Sums that do not depend on codes, and those that do, in f64 and in order.
struct ValueSums {
  double w = 0, x = 0, xx = 0;

  ValueSums(std::span<const float> values, std::span<const float> importance) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double own = importance[i], value = values[i];
      w += own;
      x += own * value;
      xx += own * value * value;
    }
  }
};
struct CodeSums {
  double q = 0, qq = 0, xq = 0;

  CodeSums(std::span<const float> values, std::span<const float> importance, float shift,
           float scale, int low, int high) {
    std::array<int, kAtOnce> codes;
    for (size_t begin = 0; begin < values.size(); begin += kAtOnce) {
      const size_t count = std::min(kAtOnce, values.size() - begin);
      codes_of(values.subspan(begin, count), shift, scale, low, high, codes);
      for (size_t i = 0; i < count; ++i) {
        const double own = importance[begin + i], value = values[begin + i], code = codes[i];
        q += own * code;
        qq += own * code * code;
        xq += own * value * code;
      }
    }
  }
};

// As code_of, for a scale other than 0, and without branches: what the conversion cuts off, half a
// code or more of it is another code away from 0.
void codes_at_once(const float* values, float shift, float scale, int low, int high, int* codes) {
  const float least = static_cast<float>(low) - 0.5f, most = static_cast<float>(high) + 0.5f;
  for (size_t i = 0; i < kAtOnce; ++i) {
    float code = (values[i] + shift) / scale;
    code = code < least ? least : code;
    code = code > most ? most : code;
    const int whole = static_cast<int>(code);
    const float rest = code - static_cast<float>(whole);
    const int near = whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
    const int above = near < low ? low : near;
    codes[i] = above > high ? high : above;
  }
}

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

void codes_of(std::span<const float> values, float shift, float scale, int low, int high,
              std::span<int> codes) {
  size_t done = 0;
  for (; scale != 0 && done + kAtOnce <= values.size(); done += kAtOnce) {
    codes_at_once(&values[done], shift, scale, low, high, &codes[done]);
  }
  for (; done < values.size(); ++done) {
    codes[done] = code_of(values[done] + shift, scale, low, high);
  }
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
      const CodeSums sums(values, importance, 0, scale, low, high);
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
  const ValueSums of(values, importance);
  for (int step = 0; step <= kMinimumSteps; ++step) {
    const float scale =
        (high - low) / (static_cast<float>(most) - 1.0f + kScaleStep * static_cast<float>(step));
    const CodeSums sums(values, importance, -low, scale, 0, most);
    const double determinant = of.w * sums.qq - sums.q * sums.q;
    if (determinant <= 0) continue;
    double a = (of.w * sums.xq - of.x * sums.q) / determinant;
    double b = (sums.qq * of.x - sums.q * sums.xq) / determinant;
    if (b > 0) {
      b = 0;
      a = sums.xq / sums.qq;
    }
    if (a <= 0) continue;
    const double error =
        of.xx - 2 * (a * sums.xq + b * of.x) + a * a * sums.qq + 2 * a * b * sums.q + b * b * of.w;
    if (error < least) {
      least = error;
      best = {static_cast<float>(a), static_cast<float>(-b)};
    }
  }
  return best;
}

}  // namespace tenon::quantize
