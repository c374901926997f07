// Two models over the same text: how far their predictions are apart, and after which layer their
// hidden states begin to differ.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/engine/engine_parts.h"
#include "core/evaluate/divergence.h"

namespace tenon {

struct ModelComparison {
  TextDifference text;
  uint64_t windows = 0;
  // [layers + 1] |other - base| / |base| of the hidden states after each layer, over all rows; the
  // last one after the final norm. Empty where the two have other layers or another width.
  std::vector<double> layer_errors;
};

// Told after every window: tokens done, and of how many.
using ComparisonProgress = std::function<void(uint64_t done, uint64_t total)>;

// The text in windows of `window_tokens`, each computed by both from its own first token. While a
// window is compared, the base's logits of it lie in memory, [window, vocabulary] f32, and its
// hidden states, [layers + 1, window, hidden]. Errors: invalid_argument (fewer than two tokens,
// windows that do not fit, other vocabularies), unsupported (diffusion), and those of
// TeacherForcing.
Result<ModelComparison> compare_models(const EngineParts& base, const EngineParts& other,
                                       std::span<const TokenId> tokens, uint32_t window_tokens,
                                       const ComparisonProgress& progress = {});

}  // namespace tenon
