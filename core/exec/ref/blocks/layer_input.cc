// Per-layer embeddings (LayerInputPlan).
#include <cmath>

#include "core/exec/ref/step.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {

void RefStep::layer_inputs() {
  const LayerInputPlan& plan = model_->plan.input();
  const size_t width = plan.width, all = model_->plan.layer_inputs_width();
  const double root = std::sqrt(static_cast<double>(model_->plan.hidden));
  inputs_.resize(batch_->rows * all);
  multiply(model_->layer_projection, {}, hidden_.data(), inputs_.data());
  std::vector<float> own(all);
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* to = &inputs_[row * all];
    read_row(model_->layer_table, model_->plan.layer_input_row(batch_->tokens[row]), own.data());
    for (size_t i = 0; i < all; ++i) to[i] = static_cast<float>(to[i] / root);
    for (size_t at = 0; at < all; at += width) {
      apply_norm(plan.norm, to + at, model_->layer_projection_norm, {}, to + at);
    }
    for (size_t i = 0; i < all; ++i) {
      const double sum = to[i] + std::sqrt(static_cast<double>(width)) * own[i];
      to[i] = static_cast<float>(sum / std::sqrt(2.0));
    }
  }
}

void RefStep::layer_input(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const LayerInputPlan& input = plan(layer).input;
  const size_t all = plan().layer_inputs_width();
  inner_.resize(size_t{batch_->rows} * input.width);
  multiply(w.input_gate, {}, hidden_.data(), inner_.data());
  for (size_t row = 0; row < batch_->rows; ++row) {
    const float* own = &inputs_[row * all + size_t{layer} * input.width];
    for (size_t i = 0; i < input.width; ++i) {
      float& value = inner_[row * input.width + i];
      value = ref::activate(input.activation, value) * own[i];
    }
  }
  multiply(w.input_out, {}, inner_.data(), update_.data());
  for (size_t at = 0; at < hidden_.size(); at += plan().hidden) {
    apply_norm(input.norm, &update_[at], w.input_norm, {}, &update_[at]);
  }
  const size_t count = plan().streams().count, width = plan().hidden;
  for (size_t i = 0; i < hidden_.size() && count == 0; ++i) hidden_[i] += update_[i];
  for (size_t at = 0; at < count * hidden_.size(); at += width) {
    const size_t row = at / (count * width);
    if (at % (count * width) == 0) continue;
    for (size_t i = 0; i < width; ++i) streams_[at + i] += update_[row * width + i];
  }
}

}  // namespace tenon
