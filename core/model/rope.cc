#include <cmath>
#include <numbers>

#include "core/model/gguf_config.h"
#include "core/model/model_config.h"

namespace tenon {
namespace {

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

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config) {
  std::vector<float> frequencies(config.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / config.head_dim;
    double frequency = std::pow(config.rope_theta, -exponent);
    const RopeScaling& scaling = config.rope_scaling;
    if (scaling.kind == RopeScalingKind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScalingKind::llama3) frequency = scale_llama3(frequency, scaling);
    if (!config.rope_factors.empty()) frequency /= config.rope_factors[i];
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

std::vector<float> llama3_rope_factors(const ModelConfig& config) {
  std::vector<float> factors(config.head_dim / 2);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double frequency =
        std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / config.head_dim);
    factors[i] = static_cast<float>(frequency / scale_llama3(frequency, config.rope_scaling));
  }
  return factors;
}

}  // namespace tenon
