// What stands before the layers of a head (core/model/heads/head.h).
#include <algorithm>

#include "core/exec/ref/step.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {

// Tokens → embedded; the states that rows continue from → hidden.
void RefStep::enter_head() {
  if (head_->joins_halves()) return enter_mtp();
  if (head_->kind == HeadKind::dflash) return enter_context();
  const TensorView& inputs = batch_->inputs;
  const size_t rows = batch_->rows, width = plan().hidden;
  embedded_.resize(rows * width);
  for (size_t row = 0; row < rows; ++row) {
    read_row(model_->embedding, static_cast<uint32_t>(batch_->tokens[row]),
             &embedded_[row * width]);
  }
  if (inputs.shape[1] == head_->features) {
    std::vector<float> states;
    fill_states(states);
    multiply(head_->fc, {}, states.data(), hidden_.data());
  } else {
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(static_cast<const float*>(inputs.data) + row * inputs.stride[0], width,
                  &hidden_[row * width]);
    }
  }
  if (head_->norm_before_residual != 1) return;
  for (size_t at = 0; at < hidden_.size(); at += width) {
    apply_norm(head_->norm, &hidden_[at], head_->state_norm, {}, &hidden_[at]);
  }
}

// The target's states as fc reads them: [rows, features].
void RefStep::fill_states(std::vector<float>& states) const {
  const TensorView& inputs = batch_->inputs;
  const size_t features = head_->features;
  const bool whole = head_->feature_norm != FeatureNorm::each;
  const size_t part = whole ? features : features / head_->state_layers.size();
  states.resize(batch_->rows * features);
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* to = &states[row * features];
    std::copy_n(static_cast<const float*>(inputs.data) + row * inputs.stride[0], features, to);
    if (head_->feature_norm == FeatureNorm::none) continue;
    for (size_t at = 0; at < features; at += part) {
      const std::span scale = std::span(head_->features_norm).subspan(at, part);
      apply_norm(head_->norm, to + at, scale, {}, to + at);
    }
  }
}

// Rows of the target's states → normed, which all layers read as it is; rows of a block are tokens
// → hidden.
void RefStep::enter_context() {
  const size_t width = plan().hidden;
  if (!head_->is_context(batch_->inputs.data != nullptr)) {
    for (size_t row = 0; row < batch_->rows; ++row) {
      read_row(model_->embedding, static_cast<uint32_t>(batch_->tokens[row]),
               &hidden_[row * width]);
    }
    return;
  }
  std::vector<float> states;
  fill_states(states);
  multiply(head_->fc, {}, states.data(), hidden_.data());
  norm_rows(head_->norm, head_->state_norm, {});
}

// Both halves are normed, if the head has norms, and become one: tokens, states → joined → hidden.
void RefStep::enter_mtp() {
  const TensorView& inputs = batch_->inputs;
  const size_t width = plan().hidden;
  std::vector<float> embedded(width);
  joined_.resize(2 * hidden_.size());
  for (size_t row = 0; row < batch_->rows; ++row) {
    read_row(model_->embedding, static_cast<uint32_t>(batch_->tokens[row]), embedded.data());
    const float* state = static_cast<const float*>(inputs.data) + row * inputs.stride[0];
    float* first = &joined_[2 * row * width];
    float* second = first + width;
    if (head_->kind == HeadKind::eagle) {
      std::copy_n(embedded.data(), width, first);
      std::copy_n(state, width, second);
      continue;
    }
    apply_norm(head_->norm, embedded.data(), head_->token_norm, {},
               head_->state_first ? second : first);
    apply_norm(head_->norm, state, head_->state_norm, {}, head_->state_first ? first : second);
  }
  multiply(head_->fc, head_->fc_bias, joined_.data(), hidden_.data());
}

// embedded, hidden → joined
void RefStep::join_head() {
  const LayerWeights& first = model_->layers.front();
  const size_t width = plan().hidden;
  joined_.resize(2 * hidden_.size());
  for (size_t at = 0; at < hidden_.size(); at += width) {
    float* to = &joined_[2 * at];
    apply_norm(plan(0).attention_norm, &embedded_[at], first.attention_norm, {}, to);
    if (head_->norm_before_residual == 1) {
      std::copy_n(&hidden_[at], width, to + width);
    } else {
      apply_norm(head_->norm, &hidden_[at], head_->state_norm, {}, to + width);
    }
  }
}

}  // namespace tenon
