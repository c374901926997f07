// Per-layer embeddings (LayerInputPlan).
#include <cmath>

#include "core/exec/cpu/step/worker.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {

void CpuWorker::layer_inputs() {
  const LayerInputPlan& input = plan().input();
  const uint64_t all = plan().layer_inputs_width();
  const CpuBuffers& b = step_.buffers;
  const float* scale = step_.model->layer_projection_norm.data();
  const Product product{&step_.weights.layer_projection(), {}, b.inputs.floats()};
  // Of one row every worker prepares all, so finished embeddings must be there for everybody.
  multiply(b.hidden.floats(), {&product, 1});
  const float of_hidden = 1.0f / std::sqrt(static_cast<float>(plan().hidden));
  const float of_row = std::sqrt(static_cast<float>(input.width));
  const float half = std::sqrt(0.5f);
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* to = b.inputs.floats() + row * all;
    read_row(step_.model->layer_table, plan().layer_input_row(step_.batch->tokens[row]),
             own_inputs_.data());
    for (uint64_t at = 0; at < all; at += input.width) {
      step_.ops->scale_and_cap(to + at, of_hidden, 0.0f, input.width);
      norm_row(input.norm, to + at, scale, nullptr, input.width, to + at);
      step_.ops->add_scaled(to + at, own_inputs_.data() + at, of_row, input.width);
      step_.ops->scale_and_cap(to + at, half, 0.0f, input.width);
    }
  }
  barrier();
}

void CpuWorker::layer_input(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerInputPlan& input = plan(layer).input;
  const uint64_t all = plan().layer_inputs_width(), width = input.width;
  const PackedLayer& w = step_.weights.layer(layer);
  const CpuBuffers& b = step_.buffers;
  const Product gate{&w[&LayerWeights::input_gate], {}, b.inner.floats()};
  multiply(b.hidden.floats(), {&gate, 1});
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.ops->activate(input.activation, b.inner.floats() + row * width,
                        b.inputs.floats() + row * all + layer * width, input.width);
  }
  barrier();
  const Product out{&w[&LayerWeights::input_out], {}, b.product.floats()};
  multiply(b.inner.floats(), {&out, 1});
  norm_rows(input.norm, vectors(layer).input_norm, b.product.floats());
  const uint32_t hidden = plan().hidden, count = plan().streams().count;
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* update = b.product.floats() + row * hidden;
    if (count == 0) step_.ops->add(b.hidden.floats() + row * hidden, update, hidden);
    for (uint32_t j = 1; j < count; ++j) {
      step_.ops->add(streams_of(row) + uint64_t{j} * hidden, update, hidden);
    }
  }
  barrier();
}

}  // namespace tenon
