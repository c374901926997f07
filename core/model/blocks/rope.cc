#include "core/model/blocks/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/model/checkpoint/gguf_config.h"

namespace tenon {
namespace {

double plain_frequency(double theta, const RopePlan& rope, size_t i) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / rope.dim);
}

// NTK-aware scaling by the length of a text, here by the longest there may be.
double scaled_theta(const RopePlan& rope, uint32_t context_tokens) {
  const RopeScaling& scaling = rope.scaling;
  const double original = scaling.original_context_tokens;
  if (scaling.kind != RopeScalingKind::dynamic || context_tokens <= original || rope.dim <= 2) {
    return rope.theta;
  }
  const double stretch = scaling.factor * context_tokens / original - (scaling.factor - 1.0);
  return rope.theta * std::pow(stretch, rope.dim / (rope.dim - 2.0));
}

// Llama 3.1: long wavelengths are stretched by the factor, short ones kept, and those between the
// two limits blended by how often they turn within the original context.
double scale_llama3(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double turns = scaling.original_context_tokens / wavelength;
  if (turns > scaling.high_freq_factor) return frequency;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  const double keep =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - keep) * frequency / scaling.factor + keep * frequency;
}

// arXiv:2309.00071: the elements between those that turn beta_fast and beta_slow times within the
// original context go over from their own frequency to the stretched one.
double scale_yarn(double frequency, size_t i, const RopePlan& rope) {
  const RopeScaling& scaling = rope.scaling;
  const auto element_of = [&](double turns) {
    const double wavelength = scaling.original_context_tokens / turns;
    return rope.dim * std::log(wavelength / (2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = element_of(scaling.beta_fast), high = element_of(scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, rope.dim - 1.0);
  if (low == high) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return frequency / scaling.factor * stretched + frequency * (1.0 - stretched);
}

}  // namespace

std::vector<float> rope_frequencies(const RopePlan& rope, uint32_t context_tokens) {
  const RopeScaling& scaling = rope.scaling;
  const bool beyond = context_tokens > scaling.original_context_tokens;
  const std::vector<float>& divisors = beyond ? scaling.long_factors : scaling.short_factors;
  const double theta = scaled_theta(rope, context_tokens);
  std::vector<float> frequencies(rope.dim / 2);
  const size_t turning = rope.turning > 0 ? rope.turning : frequencies.size();
  for (size_t i = 0; i < turning; ++i) {
    double frequency = plain_frequency(theta, rope, i);
    if (scaling.kind == RopeScalingKind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScalingKind::llama3) frequency = scale_llama3(frequency, scaling);
    if (scaling.kind == RopeScalingKind::yarn) frequency = scale_yarn(frequency, i, rope);
    if (scaling.kind == RopeScalingKind::longrope) frequency /= divisors[i];
    if (!rope.factors.empty()) frequency /= rope.factors[i];
    frequencies[i] = static_cast<float>(rope.backward ? -frequency : frequency);
  }
  return frequencies;
}

std::vector<float> llama3_rope_factors(const RopePlan& rope) {
  std::vector<float> factors(rope.dim / 2);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double frequency = plain_frequency(rope.theta, rope, i);
    factors[i] = static_cast<float>(frequency / scale_llama3(frequency, rope.scaling));
  }
  return factors;
}

}  // namespace tenon
