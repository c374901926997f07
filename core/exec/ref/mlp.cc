// Plain and gated MLPs.
#include "core/exec/ref/experts.h"
#include "core/exec/ref/step.h"

namespace tenon {

void RefStep::mlp_in(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const MlpPlan& mlp = plan(layer).mlp;
  const float* x = input(plan(layer).mlp_input_norm()).data();
  if (plan(layer).experts) {
    inner_.resize(size_t{batch_->rows} * plan().hidden);
    return ref::experts(plan(layer).experts, w, x, batch_->rows, inner_.data(), multiply_);
  }
  for (auto* values : {&inner_, &up_}) values->resize(size_t{batch_->rows} * mlp.width);
  multiply(w.up, w.up_bias, x, up_.data());
  if (mlp.gated) multiply(w.gate, w.gate_bias, x, inner_.data());
  if (mlp.activation == Activation::xielu) {
    const Xielu by = xielu_of(w.xielu);
    for (float& value : mlp.gated ? inner_ : up_) value = ref::xielu(by, value);
  }
  for (size_t i = 0; i < inner_.size(); ++i) {
    inner_[i] = mlp.gated ? ref::activate(mlp.activation, inner_[i]) * up_[i]
                          : ref::activate(mlp.activation, up_[i]);
  }
}

void RefStep::mlp_out(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  if (plan(layer).experts) {
    update_ = inner_;
  } else {
    multiply(w.down, w.down_bias, inner_.data(), update_.data());
  }
  add_to_hidden(plan(layer), plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias);
}

}  // namespace tenon
