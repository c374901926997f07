// Plain and gated MLPs.
#include <algorithm>

#include "core/exec/ref/blocks/experts.h"
#include "core/exec/ref/step.h"

namespace tenon {

void RefStep::mlp_in(uint32_t layer) {
  const LayerWeights& w = block(layer);
  const MlpPlan& mlp = plan(layer).mlp;
  const float* x = input(plan(layer).mlp_input_norm()).data();
  if (!plan(layer).has_dense_mlp()) {
    inner_.resize(size_t{batch_->rows} * plan().hidden);
    return ref::experts(plan(layer).experts, w, x, x, batch_->rows, inner_.data(), multiply_);
  }
  for (auto* values : {&inner_, &up_}) values->resize(size_t{batch_->rows} * mlp.width);
  multiply(w.up, w.up_bias, x, up_.data());
  if (mlp.gated) multiply(w.gate, w.gate_bias, x, inner_.data());
  if (plan(layer).shared.mlp_rank > 0) {
    const LayerWeights& own = model_->layers[layer];
    add_low(own.own_mlp_low, own.own_gate_high, x, inner_);
    add_low(own.own_mlp_low, own.own_up_high, x, up_);
  }
  for (size_t at = 0; at < inner_.size() && mlp.cuts_gate; at += mlp.width) {
    cut_gate(mlp.gate_cutoff, mlp.width, &inner_[at]);
  }
  if (mlp.activation == Activation::xielu) {
    const Xielu by = xielu_of(w.xielu);
    for (float& value : mlp.gated ? inner_ : up_) value = ref::xielu(by, value);
  }
  if (mlp.gated) {
    for (float& value : inner_) value *= mlp.gate_scale;
    return ref::gate_by(mlp.activation, mlp.limit, up_, inner_.data());
  }
  std::ranges::transform(up_, inner_.begin(),
                         [&](float value) { return ref::activate(mlp.activation, value); });
}

void RefStep::experts_beside(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const ExpertsPlan& experts = plan(layer).experts;
  const size_t width = plan().hidden;
  beside_.resize(hidden_.size());
  multiply(w.down, w.down_bias, inner_.data(), beside_.data());
  std::vector<float> routed(hidden_.size());
  for (size_t at = 0; at < hidden_.size(); at += width) {
    apply_norm(experts.beside_norm, &beside_[at], w.mlp_own_norm, {}, &beside_[at]);
    apply_norm(experts.beside_norm, &hidden_[at], w.router_norm, {}, &routed[at]);
    apply_norm(experts.beside_norm, &hidden_[at], w.experts_norm, {}, &normed_[at]);
  }
  inner_.resize(hidden_.size());
  ref::experts(experts, w, routed.data(), normed_.data(), batch_->rows, inner_.data(), multiply_);
  for (size_t at = 0; at < hidden_.size(); at += width) {
    apply_norm(experts.beside_norm, &inner_[at], w.experts_post_norm, {}, &inner_[at]);
    for (size_t i = at; i < at + width; ++i) inner_[i] += beside_[i];
  }
}

void RefStep::experts_aside(uint32_t layer) {
  beside_.resize(hidden_.size());
  const float* x = input(plan(layer).mlp_input_norm()).data();
  ref::experts(plan(layer).experts, model_->layers[layer], x, x, batch_->rows, beside_.data(),
               multiply_);
}

void RefStep::add_aside(uint32_t) {
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] += beside_[i];
}

void RefStep::mlp_out(uint32_t layer) {
  const LayerWeights& w = block(layer);
  if (plan(layer).experts && !plan(layer).experts.aside) {
    update_ = inner_;
  } else {
    const MlpPlan& mlp = plan(layer).mlp;
    for (size_t at = 0; at < inner_.size() && mlp.inner_norm; at += mlp.width) {
      apply_norm(mlp.inner_norm, &inner_[at], w.inner_norm, {}, &inner_[at]);
    }
    multiply(w.down, w.down_bias, inner_.data(), update_.data());
  }
  add_to_hidden(plan(layer).mlp_scale(), plan(layer).mlp_post_norm, w.mlp_post_norm,
                w.mlp_post_norm_bias);
}

}  // namespace tenon
