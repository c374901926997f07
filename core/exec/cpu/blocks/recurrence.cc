// The recurrent half of a layer: projections by linear kernels, what lies between by the state
// kernel (docs/futures.md, "State kinds").
#include <algorithm>
#include <array>
#include <vector>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

// What products of low rank are made of waits in CpuBuffers::low, one after the other.
void CpuWorker::recur_in(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const RecurrenceKind& kind = recurrence_kind(plan(layer).recurrent.kind);
  const float* x = input(plan(layer).attention_norm);
  std::array<Product, kMostRecurrentInputs + 1> products, later;
  static_assert(kMostRecurrentInputs + 1 <= kMostProducts);
  std::array<const float*, kMostRecurrentInputs + 1> later_reads = {};
  size_t count = 0, later_count = 0;
  float* low = to.low.floats();
  const auto add = [&](const RecurrentProduct& product, float* y) {
    if (product.zeros != nullptr) {
      const Share mine = share_of(uint64_t{rows_} * product.zeros(plan(layer).recurrent), slice_);
      return std::fill(y + mine.first, y + mine.last, 0.0f);
    }
    if (product.is_apart(b)) return multiply_apart(layer, product, x, y);
    Product whole{.matrix = &w[product.matrix], .y = y};
    if (product.bias != nullptr) whole.bias = b.*product.bias;
    if (product.is_low(b)) {
      products[count++] = {.matrix = &w[product.low], .y = low};
      later_reads[later_count] = low;
      later[later_count++] = whole;
      low += uint64_t{rows_} * (b.*product.low).n_out;
    } else {
      products[count++] = whole;
    }
  };
  for (size_t i = 0; i < kind.inputs.size(); ++i) add(kind.inputs[i], to.recurrent[i].floats());
  if (kind.gated) add(kRecurrentGate, to.gate.floats());
  multiply(x, std::span(products).first(count));
  for (size_t i = 0; i < later_count; ++i) multiply(later_reads[i], {&later[i], 1});
  if (plan(layer).recurrent.scales_inputs()) scale_inputs(plan(layer).recurrent);
}

// Ends with a barrier.
void CpuWorker::scale_inputs(const RecurrentPlan& recurrent) {
  const RecurrentScales& by = recurrent.scales;
  const uint32_t inner = recurrent.inner(), both = recurrent.groups * recurrent.state;
  const auto scale = [this](float* values, float factor, uint32_t count) {
    step_.ops->scale_and_cap(values, factor, 0.0f, count);
  };
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* x = step_.buffers.recurrent[0].floats() + row * recurrent.channels();
    scale(x, by.x, inner);
    scale(x + inner, by.b, both);
    scale(x + inner + both, by.c, both);
    scale(step_.buffers.recurrent[1].floats() + row * recurrent.steps(), by.step,
          recurrent.steps());
    scale(step_.buffers.gate.floats() + row * inner, by.gate, inner);
  }
  barrier();
}

// y [rows_, width]: the products of each part side by side.
void CpuWorker::multiply_apart(uint32_t layer, const RecurrentProduct& product, const float* x,
                               float* y) {
  const LayerWeights& b = vectors(layer);
  std::array<Product, kMostProducts> products;
  size_t count = 0;
  for (const auto part : product.apart) {
    products[count++] = {
        .matrix = &step_.weights.layer(layer)[part], .y = y, .y_stride = product.width(b)};
    y += (b.*part).n_out;
  }
  multiply(x, std::span(products).first(count));
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

// Of what Δ is made of, of B and of C; ends with a barrier.
void CpuWorker::norm_low(uint32_t layer) {
  const RecurrentPlan& own = plan(layer).recurrent;
  const LayerWeights& w = vectors(layer);
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* low = step_.buffers.low.floats() + row * own.step_rank;
    float* b = step_.buffers.recurrent[2].floats() + row * 2 * own.state;
    float* c = b + own.state;
    norm_row(own.low_norm, low, w.ssm_dt_norm.data(), nullptr, own.step_rank, low);
    norm_row(own.low_norm, b, w.ssm_b_norm.data(), nullptr, own.state, b);
    norm_row(own.low_norm, c, w.ssm_c_norm.data(), nullptr, own.state, c);
  }
  barrier();
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
  if (plan(layer).recurrent.low_norm) norm_low(layer);
  const Product made{&w[&LayerWeights::ssm_dt], {}, steps.floats()};
  multiply(b.low.floats(), {&made, 1});
  const void* const later[] = {b.mixed.data(), steps.data(), bc.data()};
  run_states(layer, later, b.scanned);
}

// gate = norm(silu(gate) · scanned), the norm of each group's heads together; or silu(gate) ·
// norm(scanned), of each head; or σ in place of silu.
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
    if (recurrent.sigmoid_gate) {
      step_.ops->sigmoid_mul(scanned, gated, width);
      std::copy_n(scanned, width, gated);
    } else {
      step_.ops->silu_mul(gated, scanned, width);
    }
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
  if (is_last_mixer(layer)) keep_wanted_rows(layer);
}

float* CpuWorker::recurred(uint32_t layer) const {
  const bool gated = recurrence_kind(plan(layer).recurrent.kind).gated;
  return (gated ? step_.buffers.gate : step_.buffers.scanned).floats();
}

void CpuWorker::recur_out(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& w = vectors(layer);
  add_to_stream(plan(layer).recurrent_scale(), recurred(layer),
                step_.weights.layer(layer)[&LayerWeights::ssm_out], w.ssm_out_bias,
                plan(layer).attention_post_norm, w.attention_post_norm, w.attention_post_norm_bias);
}

}  // namespace tenon
