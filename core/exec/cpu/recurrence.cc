// The recurrent half of a layer: projections by linear kernels, what lies between by the state
// kernel (docs/futures.md, "State kinds").
#include <vector>

#include "core/exec/cpu/worker.h"

namespace tenon {

void CpuWorker::recur_in(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const Product products[] = {{&w.ssm_in, b.ssm_in_bias, to.x.floats()},
                              {&w.ssm_gate, b.ssm_gate_bias, to.gate.floats()},
                              {&w.ssm_step, b.ssm_step_bias, to.step.floats()},
                              {&w.ssm_beta, {}, to.bc.floats()}};
  const Recurrence kind = plan(layer).recurrent.kind;
  const size_t count = kind == Recurrence::mamba ? 2 : kind == Recurrence::mamba2 ? 3 : 4;
  multiply(input(plan(layer).attention_norm), std::span(products).first(count));
}

// Ends with a barrier, as each phase does.
void CpuWorker::run_states(uint32_t layer, std::initializer_list<const void*> inputs, void* out) {
  StateCall call;
  call.layer = layer;
  call.inputs = {inputs.begin(), inputs.size()};
  call.out = out;
  for (uint32_t phase = 0; phase < step_.states.phases(layer); ++phase) {
    keep(step_.states.run(call, phase, slice_));
    barrier();
  }
}

// Mamba makes Δ, B and C of what was convolved, so its layers are two calls.
void CpuWorker::convolve_and_scan(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const CpuBuffers& b = step_.buffers;
  run_states(layer, {b.x.data()}, b.mixed.data());
  const Product products[] = {{&w.ssm_low, {}, b.low.floats()}, {&w.ssm_bc, {}, b.bc.floats()}};
  multiply(b.mixed.floats(), products);
  const Product steps{&w.ssm_dt, {}, b.step.floats()};
  multiply(b.low.floats(), {&steps, 1});
  run_states(layer, {b.mixed.data(), b.step.data(), b.bc.data()}, b.scanned.data());
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
  const RecurrentPlan& recurrent = plan(layer).recurrent;
  if (recurrent.kind == Recurrence::mamba) {
    convolve_and_scan(layer);
  } else if (recurrent.kind == Recurrence::mamba2) {
    run_states(layer, {b.x.data(), b.step.data()}, b.scanned.data());
  } else {
    run_states(layer, {b.x.data(), b.step.data(), b.bc.data()}, b.scanned.data());
  }
  gate_output(layer);
  if (is_last(layer)) keep_wanted_rows(layer);
}

void CpuWorker::recur_out(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(layer);
  add_to_stream(layer, step_.buffers.gate.floats(), step_.weights.layer(layer).ssm_out,
                w.ssm_out_bias, plan(layer).attention_post_norm, w.attention_post_norm,
                w.attention_post_norm_bias);
}

}  // namespace tenon
