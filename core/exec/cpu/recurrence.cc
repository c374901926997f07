// The recurrent half of a layer: projections by linear kernels, what lies between by the state
// kernel (docs/futures.md, "State kinds").
#include <array>
#include <vector>

#include "core/exec/cpu/worker.h"

namespace tenon {

void CpuWorker::recur_in(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const RecurrenceKind& kind = recurrence_kind(plan(layer).recurrent.kind);
  std::array<Product, kMostRecurrentInputs + 1> products;
  static_assert(kMostRecurrentInputs + 1 <= kMostProducts);
  size_t count = 0;
  for (const RecurrentProduct& product : kind.inputs) {
    products[count] = {.matrix = &w[product.matrix], .y = to.recurrent[count].floats()};
    if (product.bias != nullptr) products[count].bias = b.*product.bias;
    ++count;
  }
  if (kind.gated)
    products[count++] = {&w[&LayerWeights::ssm_gate], b.ssm_gate_bias, to.gate.floats()};
  multiply(input(plan(layer).attention_norm), std::span(products).first(count));
}

// Ends with a barrier, as each phase does.
void CpuWorker::run_states(uint32_t layer, std::span<const void* const> inputs,
                           const HostMemory& out) {
  StateCall call;
  call.layer = layer;
  call.inputs = inputs;
  call.out = out.data();
  for (uint32_t phase = 0; phase < step_.states.phases(layer); ++phase) {
    keep(step_.states.run(call, phase, slice_));
    barrier();
  }
}

// Mamba makes Δ, B and C of what was convolved, so its layers are two calls.
void CpuWorker::convolve_and_scan(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const CpuBuffers& b = step_.buffers;
  const auto& [x, steps, bc] = b.recurrent;
  const void* const entering[] = {x.data()};
  run_states(layer, entering, b.mixed);
  const Product products[] = {{&w[&LayerWeights::ssm_low], {}, b.low.floats()},
                              {&w[&LayerWeights::ssm_bc], {}, bc.floats()}};
  multiply(b.mixed.floats(), products);
  const Product made{&w[&LayerWeights::ssm_dt], {}, steps.floats()};
  multiply(b.low.floats(), {&made, 1});
  const void* const later[] = {b.mixed.data(), steps.data(), bc.data()};
  run_states(layer, later, b.scanned);
}

// gate = norm(silu(gate) · scanned), the norm of each group's heads together; or silu(gate) ·
// norm(scanned), of each head.
void CpuWorker::gate_output(uint32_t layer) {
  const RecurrentPlan& recurrent = plan(layer).recurrent;
  const std::vector<float>& scale = vectors(layer).ssm_norm;
  const uint32_t norms = recurrent.norms(), width = recurrent.inner() / norms;
  const Share mine = share_of(uint64_t{rows_} * norms, slice_);
  const auto norm = [&](uint64_t item, float* x) {
    if (!recurrent.gate_norm) return;
    norm_row(recurrent.gate_norm, x, scale.data() + item * width % scale.size(), nullptr, width, x);
  };
  for (uint64_t item = mine.first; item < mine.last; ++item) {
    float* gated = step_.buffers.gate.floats() + item * width;
    float* scanned = step_.buffers.scanned.floats() + item * width;
    if (recurrent.norm_before_gate()) norm(item, scanned);
    step_.ops->silu_mul(gated, scanned, width);
    if (!recurrent.norm_before_gate()) norm(item, gated);
  }
  barrier();
}

void CpuWorker::recur(uint32_t layer) {
  const CpuBuffers& b = step_.buffers;
  const RecurrenceKind& kind = recurrence_kind(plan(layer).recurrent.kind);
  if (!kind.later_inputs.empty()) {
    convolve_and_scan(layer);
  } else {
    std::array<const void*, kMostRecurrentInputs> inputs;
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = b.recurrent[i].data();
    run_states(layer, std::span(inputs).first(kind.inputs.size()), b.scanned);
  }
  if (kind.gated) gate_output(layer);
  if (is_last(layer)) keep_wanted_rows(layer);
}

float* CpuWorker::recurred(uint32_t layer) const {
  const bool gated = recurrence_kind(plan(layer).recurrent.kind).gated;
  return (gated ? step_.buffers.gate : step_.buffers.scanned).floats();
}

void CpuWorker::recur_out(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(layer);
  add_to_stream(layer, recurred(layer), step_.weights.layer(layer)[&LayerWeights::ssm_out],
                w.ssm_out_bias, plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias);
}

}  // namespace tenon
