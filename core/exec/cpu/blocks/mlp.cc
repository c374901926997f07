// Plain and gated MLPs.
#include "core/exec/cpu/step/worker.h"

namespace tenon {

std::optional<Epilogue> CpuWorker::gate_epilogue(Activation activation) {
  if (activation == Activation::silu) return Epilogue::silu_mul;
  if (activation == Activation::gelu_tanh) return Epilogue::gelu_mul;
  return std::nullopt;
}

// Where gate and up are combined: for all ranks where each finishes its columns by itself, and
// nothing follows but the product that reads them.
float* CpuWorker::inner_of(uint32_t layer) const {
  const PackedLayer& w = step_.weights.layer(block_of(layer));
  const PackedMatrix& gate = w[&LayerWeights::gate];
  const MlpPlan& mlp = plan(layer).mlp;
  const std::optional<Epilogue> epilogue = gate_epilogue(mlp.activation);
  const bool shares =
      step_.by_all.inner != nullptr && mlp.gated && is_plain(layer) && !mlp.inner_norm &&
      epilogue && gate.starts != nullptr && w[&LayerWeights::down].starts != nullptr &&
      vectors(block_of(layer)).up_bias.empty() && gate.pairs_with(w[&LayerWeights::up], *epilogue);
  return shares ? step_.by_all.inner : step_.buffers.inner.floats();
}

// Gate and up are combined by nothing but an activation.
bool CpuWorker::is_plain(uint32_t layer) const {
  const MlpPlan& mlp = plan(layer).mlp;
  return mlp.gate_scale == 1.0f && !mlp.cuts_gate && mlp.limit == 0.0f &&
         plan(layer).shared.mlp_rank == 0;
}

void CpuWorker::mlp_in(uint32_t layer) {
  if (rows_ == 0) return;
  if (!plan(layer).has_dense_mlp()) return experts_in(layer);
  const PackedLayer& w = step_.weights.layer(block_of(layer));
  const LayerWeights& b = vectors(block_of(layer));
  const MlpPlan& mlp = plan(layer).mlp;
  const CpuBuffers& to = step_.buffers;
  const float* x = input(plan(layer).mlp_input_norm());
  const std::optional<Epilogue> epilogue = gate_epilogue(mlp.activation);
  const bool adds_low = plan(layer).shared.mlp_rank > 0;
  if (mlp.gated && epilogue && is_plain(layer)) {
    const Product gated{&w[&LayerWeights::gate], b.gate_bias, inner_of(layer), *epilogue,
                        &w[&LayerWeights::up],   b.up_bias};
    return multiply(x, {&gated, 1});
  }
  // What is added to it may need the buffer of products.
  float* const of_up = (adds_low ? to.expanded : to.product).floats();
  float* const beside = mlp.gated ? of_up : nullptr;
  const Product products[] = {
      {&w[&LayerWeights::up], b.up_bias, mlp.gated ? beside : to.inner.floats()},
      {&w[&LayerWeights::gate], b.gate_bias, to.inner.floats()}};
  multiply(x, std::span(products).first(mlp.gated ? 2 : 1));
  if (adds_low) add_low_mlp(layer, x, to.inner.floats(), beside);
  if (mlp.cuts_gate) cut_gates(mlp);
  const Share mine = share_of(uint64_t{rows_} * mlp.width, slice_);
  if (mlp.gate_scale != 1.0f) {
    step_.ops->scale_and_cap(to.inner.floats() + mine.first, mlp.gate_scale, 0.0f,
                             static_cast<uint32_t>(mine.last - mine.first));
  }
  if (mlp.activation == Activation::xielu) {
    step_.ops->xielu(xielu_of(b.xielu), to.inner.floats() + mine.first,
                     static_cast<uint32_t>(mine.last - mine.first));
  }
  finish_gate(mlp.activation, mlp.limit, to.inner.floats() + mine.first,
              mlp.gated ? beside + mine.first : nullptr,
              static_cast<uint32_t>(mine.last - mine.first));
  barrier();
}

// `up` null: a plain MLP.
void CpuWorker::finish_gate(Activation activation, float limit, float* gate, const float* up,
                            uint32_t count) const {
  if (limit > 0.0f && up != nullptr) {
    step_.ops->limited_gate(activation, gate, up, limit, count);
  } else {
    step_.ops->activate(activation, gate, up, count);
  }
}

// Of this worker's rows. Ends with a barrier.
void CpuWorker::cut_gates(const MlpPlan& mlp) {
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    cut_gate(mlp.gate_cutoff, mlp.width, step_.buffers.inner.floats() + row * mlp.width);
  }
  barrier();
}

void CpuWorker::mlp_out(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(block_of(layer));
  if (plan(layer).experts && !plan(layer).experts.aside) {
    experts_out(layer);
  } else {
    const MlpPlan& mlp = plan(layer).mlp;
    float* const inner = inner_of(layer);
    norm_wide_rows(mlp.inner_norm, w.inner_norm, mlp.width, inner);
    add_to_stream(plan(layer).mlp_scale(), inner,
                  step_.weights.layer(block_of(layer))[&LayerWeights::down], w.down_bias,
                  plan(layer).mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias);
  }
}

}  // namespace tenon
