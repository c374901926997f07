// A block that layers share (SharedBlockPlan).
#include <algorithm>

#include "core/exec/ref/step.h"

namespace tenon {

void RefStep::enter_block(uint32_t layer) {
  const size_t width = plan().hidden;
  before_ = hidden_;
  joined_.resize(2 * hidden_.size());
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* to = &joined_[row * 2 * width];
    std::copy_n(&hidden_[row * width], width, to);
    std::copy_n(&embedded_[row * width], width, to + width);
    apply_norm(plan(layer).shared.norm, to, block(layer).block_norm, {}, to);
  }
}

void RefStep::clear_stream() {
  std::ranges::fill(hidden_, 0.0f);
}

// y += high · (low · x)
void RefStep::add_low(const Weight& low, const Weight& high, const float* x,
                      std::vector<float>& y) const {
  std::vector<float> inner(size_t{batch_->rows} * low.n_out), added(y.size());
  multiply(low, {}, x, inner.data());
  multiply(high, {}, inner.data(), added.data());
  for (size_t i = 0; i < y.size(); ++i) y[i] += added[i];
}

void RefStep::leave_block(uint32_t layer) {
  multiply(model_->layers[layer].block_link, {}, hidden_.data(), update_.data());
  for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = before_[i] + update_[i];
}

void RefStep::leave_kept(uint32_t) {
  hidden_ = before_;
}

}  // namespace tenon
