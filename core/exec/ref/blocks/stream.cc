// The residual stream: embeddings, norms, what is added, and the rows that are handed out.
#include <algorithm>

#include "core/exec/ref/step.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {

void apply_norm(const NormPlan& norm, const float* x, std::span<const float> scale,
                std::span<const float> bias, float* out) {
  if (norm.kind == NormKind::rms) ref::rms_norm(x, scale, norm.eps, out);
  if (norm.kind == NormKind::layer) ref::layer_norm(x, scale, bias, norm.eps, out);
}

void RefStep::embed() {
  if (head_ != nullptr) return enter_head();
  const TensorView& inputs = batch_->inputs;
  const size_t width = plan().hidden;
  std::vector<float> position(width);
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* to = &hidden_[row * width];
    if (batch_->tokens[row] == kNoToken) {
      std::copy_n(static_cast<const float*>(inputs.data) + row * inputs.stride[0], width, to);
    } else {
      read_row(model_->embedding, static_cast<uint32_t>(batch_->tokens[row]), to);
      for (size_t i = 0; i < width; ++i) to[i] *= plan().embedding_scale;
    }
    if (!plan().learned_positions) continue;
    read_row(model_->positions, batch_->positions[row], position.data());
    for (size_t i = 0; i < width; ++i) to[i] += position[i];
  }
  for (size_t at = 0; at < hidden_.size(); at += width) {
    apply_norm(plan().embedding_norm, &hidden_[at], model_->embedding_norm,
               model_->embedding_norm_bias, &hidden_[at]);
  }
  if (plan().reads_embedded()) embedded_ = hidden_;
}

void RefStep::norm_rows(const NormPlan& norm, std::span<const float> scale,
                        std::span<const float> bias) {
  for (size_t at = 0; at < hidden_.size(); at += plan().hidden) {
    apply_norm(norm, &hidden_[at], scale, bias, &normed_[at]);
  }
}

void RefStep::attention_norm(uint32_t layer) {
  if (joins(layer)) return join_head();
  const LayerWeights& w = model_->layers[layer];
  norm_rows(plan(layer).attention_norm, w.attention_norm, w.attention_norm_bias);
  keep_normed(plan(layer).mixer_keeps);
}

// hidden = factor · normed, where that is above 0
void RefStep::keep_normed(float factor) {
  for (size_t i = 0; i < hidden_.size() && factor > 0.0f; ++i) hidden_[i] = factor * normed_[i];
}

void RefStep::mlp_norm(uint32_t layer) {
  if (!plan(layer).mlp_norm) return attention_norm(layer);
  const LayerWeights& w = block(layer);
  norm_rows(plan(layer).mlp_norm, w.mlp_norm, w.mlp_norm_bias);
  keep_normed(plan(layer).mlp_keeps);
}

// hidden += factor · post_norm(update)
void RefStep::add_to_hidden(float factor, const NormPlan& post_norm, std::span<const float> scale,
                            std::span<const float> bias) {
  for (size_t at = 0; at < update_.size() && post_norm; at += plan().hidden) {
    apply_norm(post_norm, &update_[at], scale, bias, &update_[at]);
  }
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] += factor * update_[i];
}

void RefStep::keep_hidden(uint32_t layer, const std::vector<float>& rows) {
  float* to = kept_.of_layer(layer);
  for (size_t i = 0; i < batch_->hidden_rows.size() && to != nullptr; ++i) {
    const auto first =
        rows.begin() + static_cast<ptrdiff_t>(batch_->hidden_rows[i] * size_t{plan().hidden});
    to = std::copy_n(first, plan().hidden, to);
  }
}

void RefStep::weigh_stream(uint32_t layer, bool of_mlp) {
  const LayerWeights& w = model_->layers[layer];
  const std::vector<float>& by = of_mlp ? w.mlp_residual : w.attention_residual;
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] *= by[i % by.size()];
}

void RefStep::scale_layer(uint32_t layer) {
  for (float& value : hidden_) value *= model_->layers[layer].layer_scale.front();
}

void RefStep::logits() {
  const NormPlan& norm = plan().final_norm;
  const auto layers = static_cast<uint32_t>(plan().layers.size());
  if (kept_.of_layer(layers) != nullptr) {
    if (norm) norm_rows(norm, model_->final_norm, model_->final_norm_bias);
    keep_hidden(layers, norm ? normed_ : hidden_);
  }
  const size_t width = plan().hidden;
  for (size_t i = 0; i < batch_->logits_rows.size(); ++i) {
    const float* row = &hidden_[batch_->logits_rows[i] * width];
    if (!norm) {
      std::copy_n(row, width, &normed_[i * width]);
    } else {
      apply_norm(norm, row, model_->final_norm, model_->final_norm_bias, &normed_[i * width]);
    }
  }
  multiply_(model_->head, model_->head_bias, normed_.data(),
            static_cast<uint32_t>(batch_->logits_rows.size()), logits_.data());
  for (float& logit : logits_) {
    logit *= plan().logit_scale;
    if (plan().logit_soft_cap > 0.0f) logit = ref::soft_cap(logit, plan().logit_soft_cap);
  }
}

}  // namespace tenon
