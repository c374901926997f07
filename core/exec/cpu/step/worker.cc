#include "core/exec/cpu/step/worker.h"

#include <algorithm>
#include <utility>

namespace tenon {

Status CpuWorker::allocate() {
  CpuBuffers one_row;
  TENON_RETURN_IF_ERROR(one_row.allocate(*step_.model, step_.head, step_.weights, 1));
  own_normed_ = std::move(one_row.normed);
  own_q_ = std::move(one_row.q);
  own_k_ = std::move(one_row.k);
  own_low_ = std::move(one_row.low);
  own_expanded_ = std::move(one_row.expanded);
  own_prepared_ = std::move(one_row.prepared);
  own_low_prepared_ = std::move(one_row.low_prepared);
  if (plan().learned_positions) own_position_.resize(plan().hidden);
  own_inputs_.resize(plan().layer_inputs_width());
  uint32_t heads = 0, experts = 0, v_dim = 0;
  for (const LayerPlan& layer : plan().layers) {
    if (layer.attention.makes_v()) v_dim = std::max(v_dim, layer.attention.head_dim);
    if (layer.latent) heads = std::max(heads, layer.attention.heads);
    experts = std::max(experts, layer.experts.routed());
  }
  own_ones_.assign(v_dim, 1.0f);
  if (v_dim > 0) own_v_ = std::move(one_row.v);
  own_choice_.resize(size_t{3} * experts);
  own_streams_.resize(size_t{plan().streams().count} * plan().hidden);
  heads = std::max(heads, plan().streams().count);
  reserve(heads, experts);
  return {};
}

Status CpuWorker::grow_for_adapters() {
  reserve_adapters();
  CpuBuffers one_row;
  one_row.prepared = std::move(own_prepared_);
  one_row.low_prepared = std::move(own_low_prepared_);
  Status status = one_row.grow_for_adapters(plan(), step_.weights, 1);
  own_prepared_ = std::move(one_row.prepared);
  own_low_prepared_ = std::move(one_row.low_prepared);
  return status;
}

void CpuWorker::run(uint32_t workers, uint32_t linear_calls) {
  slice_.count = workers;
  linear_calls_ = linear_calls;
  rows_ = step_.batch->rows;
  rows_are_kept_ = false;
  status_ = Status();
  const bool has_states = step_.batch->inputs.data != nullptr;
  if (step_.head != nullptr && step_.head->is_context(has_states)) {
    return run_context(plan(), *this, [this](uint32_t layer) { store_context(layer); });
  }
  run_decoder(plan(), *this, step_.cut.range);
}

}  // namespace tenon
