#include "core/evaluate/model_comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "core/evaluate/teacher_forcing.h"

namespace tenon {
namespace {

Status check_both(const EngineParts& base, const EngineParts& other,
                  std::span<const TokenId> tokens, uint32_t window_tokens) {
  if (base.mask_token != kNoToken || other.mask_token != kNoToken) {
    return unsupported(
        "a model that generates by diffusion predicts no next tokens; compare models that "
        "generate token by token");
  }
  if (base.shape->vocabulary != other.shape->vocabulary) {
    return invalid_argument("the vocabularies have " + std::to_string(base.shape->vocabulary) +
                            " and " + std::to_string(other.shape->vocabulary) +
                            " tokens; expected two models of one vocabulary");
  }
  if (tokens.size() < 2) {
    return invalid_argument("the text has " + std::to_string(tokens.size()) +
                            " tokens; a prediction needs at least 2");
  }
  const uint32_t most = std::min(base.limits.context_tokens, other.limits.context_tokens);
  if (window_tokens < 2 || window_tokens > most) {
    return invalid_argument("windows of " + std::to_string(window_tokens) +
                            " tokens; expected 2 to the shorter context, " + std::to_string(most));
  }
  return {};
}

// Squares of the hidden states of a layer and of what they differ by.
struct LayerSums {
  double base = 0, difference = 0;
};

// What the base computes of a window, then what the other one makes of it.
class WindowPair {
 public:
  WindowPair(const EngineParts& base, const EngineParts& other, uint32_t window_tokens)
      : vocabulary_(base.shape->vocabulary),
        width_(base.shape->hidden),
        window_(window_tokens),
        base_(base),
        other_(other) {
    if (base.shape->layer_count != other.shape->layer_count ||
        base.shape->hidden != other.shape->hidden) {
      return;
    }
    layers_.resize(base.shape->layer_count + 1);
    std::iota(layers_.begin(), layers_.end(), LayerId{0});
    sums_.resize(layers_.size());
    hidden_.resize(layers_.size() * window_ * width_);
    base_.watch(layers_, [this](uint32_t position, LayerId layer, std::span<const float> hidden) {
      std::ranges::copy(hidden, row_of(position, layer));
      return Status();
    });
    other_.watch(layers_, [this](uint32_t position, LayerId layer, std::span<const float> hidden) {
      add(sums_[layer], row_of(position, layer), hidden);
      return Status();
    });
  }

  // `window` has at least two tokens.
  Status run(std::span<const TokenId> window, TextDifference& out) {
    const std::span<const TokenId> read = window.first(window.size() - 1);
    logits_.resize(read.size() * vocabulary_);
    TENON_RETURN_IF_ERROR(
        base_.run(read, {}, [this](uint32_t position, std::span<const float> logits) {
          std::ranges::copy(logits, logits_.begin() + static_cast<ptrdiff_t>(position) *
                                                          static_cast<ptrdiff_t>(vocabulary_));
          return Status();
        }));
    std::vector<PredictionDifference> predictions;
    TENON_RETURN_IF_ERROR(
        other_.run(read, {}, [&](uint32_t position, std::span<const float> logits) -> Status {
          const std::span<const float> base(logits_.data() + position * vocabulary_, vocabulary_);
          TENON_ASSIGN_OR_RETURN(const PredictionDifference found,
                                 difference_of(base, logits, window[position + 1]));
          predictions.push_back(found);
          return {};
        }));
    out.add_window(predictions);
    return {};
  }

  std::vector<double> layer_errors() const {
    std::vector<double> errors;
    for (const LayerSums& sums : sums_) {
      errors.push_back(sums.base > 0 ? std::sqrt(sums.difference / sums.base) : 0.0);
    }
    return errors;
  }

 private:
  float* row_of(uint32_t position, LayerId layer) {
    return hidden_.data() + (size_t{layer} * window_ + position) * width_;
  }
  static void add(LayerSums& sums, const float* base, std::span<const float> other) {
    for (size_t i = 0; i < other.size(); ++i) {
      const double value = base[i], apart = other[i] - value;
      sums.base += value * value;
      sums.difference += apart * apart;
    }
  }

  const size_t vocabulary_, width_, window_;
  TeacherForcing base_, other_;
  std::vector<LayerId> layers_;
  std::vector<float> logits_, hidden_;  // [window, vocabulary], [layers + 1, window, width]
  std::vector<LayerSums> sums_;         // [layers + 1]
};

}  // namespace

Result<ModelComparison> compare_models(const EngineParts& base, const EngineParts& other,
                                       std::span<const TokenId> tokens, uint32_t window_tokens,
                                       const ComparisonProgress& progress) {
  TENON_RETURN_IF_ERROR(check_both(base, other, tokens, window_tokens));
  ModelComparison made;
  WindowPair pair(base, other, window_tokens);
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += window_tokens) {
    const size_t count = std::min<size_t>(window_tokens, tokens.size() - begin);
    TENON_RETURN_IF_ERROR(pair.run(tokens.subspan(begin, count), made.text));
    ++made.windows;
    if (progress) progress(begin + count, tokens.size());
  }
  made.layer_errors = pair.layer_errors();
  return made;
}

}  // namespace tenon
