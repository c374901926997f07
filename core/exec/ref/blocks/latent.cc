// Latent attention around the cache.
#include <algorithm>

#include "core/exec/ref/step.h"

namespace tenon {

// arXiv:2405.04434, equations 9 to 15: the row that the cache keeps, and the heads of q.
void RefStep::latent_qkv(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const SelfAttentionPlan& attention = plan(layer).attention;
  const LatentAttentionPlan& latent = plan(layer).latent;
  const uint32_t rows = batch_->rows;
  const float* x = input(plan(layer).attention_norm).data();
  k_.resize(size_t{rows} * latent.row_dim());
  multiply(w.kv_a, w.kv_a_bias, x, k_.data());
  for (size_t at = 0; at < k_.size(); at += latent.row_dim()) {
    apply_norm(latent.norm, &k_[at], w.kv_a_norm, {}, &k_[at]);
    for (size_t i = at; i < at + latent.kv_rank; ++i) k_[i] *= latent.kv_scale;
  }
  if (attention.output_gate) {
    attention_gate_.resize(size_t{rows} * attention.gate_width());
    multiply(w.output_gate, {}, x, attention_gate_.data());
  }
  expanded_.resize(size_t{rows} * attention.heads * latent.q_dim());
  if (latent.q_rank == 0) return multiply(w.q, {}, x, expanded_.data());
  low_.resize(size_t{rows} * latent.q_rank);
  multiply(w.q_a, w.q_a_bias, x, low_.data());
  for (size_t at = 0; at < low_.size(); at += latent.q_rank) {
    apply_norm(latent.norm, &low_[at], w.q_a_norm, {}, &low_[at]);
  }
  multiply(w.q, {}, low_.data(), expanded_.data());
}

// q_nope · (Wuk · c) = (Wukᵀ · q_nope) · c, the absorption of arXiv:2405.04434, section 2.1.2.
void RefStep::absorb(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const LatentAttentionPlan& latent = plan(layer).latent;
  const size_t heads = plan(layer).attention.heads;
  q_.resize(batch_->rows * heads * latent.row_dim());
  for (size_t item = 0; item < batch_->rows * heads; ++item) {
    const float* from = &expanded_[item * latent.q_dim()];
    float* to = &q_[item * latent.row_dim()];
    multiply_(w.k_absorb[item % heads], {}, from, 1, to);
    std::copy_n(from + latent.nope_dim, latent.rope_dim, to + latent.kv_rank);
  }
  attended_.resize(batch_->rows * heads * latent.kv_rank);
}

// Σ p · (Wuv · c) = Wuv · Σ p · c.
void RefStep::expand(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const LatentAttentionPlan& latent = plan(layer).latent;
  const size_t heads = plan(layer).attention.heads;
  expanded_.resize(batch_->rows * heads * latent.v_dim);
  for (size_t item = 0; item < batch_->rows * heads; ++item) {
    multiply_(w.v_expand[item % heads], {}, &attended_[item * latent.kv_rank], 1,
              &expanded_[item * latent.v_dim]);
  }
}

}  // namespace tenon
