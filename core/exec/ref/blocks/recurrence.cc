#include "core/exec/ref/blocks/recurrence.h"

#include <algorithm>
#include <cmath>

#include "core/exec/ref/math.h"
#include "core/exec/ref/step.h"

namespace tenon::ref {
namespace {

using Inputs = std::span<const float* const>;

float rounded(double x) {
  return static_cast<float>(x);
}

std::vector<std::vector<float>> all_parameters(const RecurrentPlan& plan,
                                               const RecurrentWeights& weights) {
  std::vector<std::vector<float>> all;
  for (const RecurrentParameter& one : recurrence_kind(plan.kind).parameters(plan, weights)) {
    const std::span<const float> values = one.values.empty() ? std::span(one.own) : one.values;
    size_t count = 1;
    for (const uint64_t extent : one.extents) count *= extent;
    all.emplace_back(values.begin(), values.end()).resize(count);
  }
  return all;
}

}  // namespace

float* Recurrence::slot(BlockId block) const {
  const LayerShape& own = shape.layers[layer];
  const StateStorage& states = storage[own.state_group];
  return reinterpret_cast<float*>(states.base + static_cast<uint64_t>(block) * states.slot_bytes +
                                  own.state_offset);
}

template <typename Advance>
void Recurrence::each_row(size_t first, size_t count, Advance advance) const {
  std::vector<float> values(count);
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const KvTableView& table = batch.groups[shape.layers[layer].state_group].tables[i];
    if (sequence.rows == 0) continue;
    if (table.blocks[0] == kNoBlock) {
      std::ranges::fill(values, 0.0f);
    } else {
      std::copy_n(slot(table.blocks[0]) + first, count, values.begin());
    }
    size_t end = 1;
    for (uint32_t row = 0; row < sequence.rows; ++row) {
      advance(size_t{sequence.first_row} + row, values.data());
      if (end == table.ends.size() || table.ends[end] - table.ends[0] != row + 1) continue;
      std::copy_n(values.begin(), count, slot(table.blocks[end++]) + first);
    }
  }
}

// Of a kind that is called twice, each call has its part of the state.
void Recurrence::run(Inputs inputs, float* y) const {
  const RecurrenceKind& kind = recurrence_kind(plan.kind);
  const std::vector<std::vector<float>> parameters = all_parameters(plan, weights);
  const auto widths = kind.input_widths(plan);
  const size_t convolved = size_t{plan.width - 1} * plan.channels();
  size_t first = 0, last = plan.state_bytes() / sizeof(float);
  if (!kind.later_inputs.empty()) (inputs.size() == 1 ? last : first) = convolved;
  RecurrentRow one;
  one.dims = kind.dims(plan);
  one.parameters = parameters;
  std::vector<const float*> of_row(inputs.size());
  each_row(first, last - first, [&](size_t row, float* state) {
    for (size_t i = 0; i < inputs.size(); ++i) of_row[i] = inputs[i] + row * widths[i];
    one.inputs = of_row;
    one.state = state;
    one.out = y + row * plan.inner();
    kind.advance(one);
  });
}

namespace {

void norm_parts(const RecurrentPlan& plan, std::span<const float> scale, uint32_t rows, float* y) {
  const size_t width = plan.inner() / plan.norms();
  for (size_t at = 0; at < size_t{rows} * plan.inner(); at += width) {
    apply_norm(plan.gate_norm, y + at, scale.subspan(at % scale.size(), width), {}, y + at);
  }
}

}  // namespace

void scale_inputs(const RecurrentPlan& plan, std::span<float> xbc, std::span<float> steps,
                  std::span<float> gate) {
  const RecurrentScales& by = plan.scales;
  const size_t inner = plan.inner(), both = size_t{plan.groups} * plan.state;
  for (size_t i = 0; i < xbc.size(); ++i) {
    const size_t channel = i % plan.channels();
    xbc[i] *= channel < inner ? by.x : channel < inner + both ? by.b : by.c;
  }
  for (float& value : steps) value *= by.step;
  for (float& value : gate) value *= by.gate;
}

void gate(const RecurrentPlan& plan, std::span<const float> scale, const float* gate, uint32_t rows,
          float* y) {
  if (plan.gate_norm && plan.norm_before_gate()) norm_parts(plan, scale, rows, y);
  for (size_t i = 0; i < size_t{rows} * plan.inner(); ++i) {
    const double factor = plan.sigmoid_gate ? 1.0 / (1.0 + std::exp(-double{gate[i]}))
                                            : double{activate(Activation::silu, gate[i])};
    y[i] = rounded(double{y[i]} * factor);
  }
  if (plan.gate_norm && !plan.norm_before_gate()) norm_parts(plan, scale, rows, y);
}

}  // namespace tenon::ref

namespace tenon {

void RefStep::recur_in(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const RecurrentPlan& recurrent = plan(layer).recurrent;
  const RecurrenceKind& kind = recurrence_kind(recurrent.kind);
  const float* x = input(plan(layer).attention_norm).data();
  for (size_t i = 0; i < kind.inputs.size(); ++i) {
    const RecurrentProduct& product = kind.inputs[i];
    if (product.zeros == nullptr) {
      multiply(product, w, x, recurrent_[i]);
    } else {
      recurrent_[i].assign(batch_->rows * size_t{product.zeros(recurrent)}, 0.0f);
    }
  }
  scanned_.resize(batch_->rows * size_t{recurrent.inner()});
  if (kind.gated) multiply(kRecurrentGate, w, x, gate_);
  if (recurrent.scales_inputs()) ref::scale_inputs(recurrent, recurrent_[0], recurrent_[1], gate_);
}

void RefStep::multiply(const RecurrentProduct& product, const LayerWeights& w, const float* x,
                       std::vector<float>& y) {
  const size_t rows = batch_->rows, width = product.width(w);
  y.resize(rows * width);
  if (product.is_apart(w)) {
    size_t first = 0;
    for (const auto part : product.apart) {
      std::vector<float> own(rows * (w.*part).n_out);
      multiply(w.*part, {}, x, own.data());
      for (size_t row = 0; row < rows; ++row) {
        std::copy_n(&own[row * (w.*part).n_out], (w.*part).n_out, &y[row * width + first]);
      }
      first += (w.*part).n_out;
    }
    return;
  }
  std::vector<float> low;
  if (product.is_low(w)) {
    low.resize(rows * (w.*product.low).n_out);
    multiply(w.*product.low, {}, x, low.data());
    x = low.data();
  }
  const std::span<const float> bias =
      product.bias == nullptr ? std::span<const float>() : w.*product.bias;
  multiply(w.*product.matrix, bias, x, y.data());
}

void RefStep::recur(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const RecurrentPlan& own = plan(layer).recurrent;
  const RecurrenceKind& kind = recurrence_kind(own.kind);
  const ref::Recurrence recurrence{*shape_, kv_.states(), *batch_, own, w, layer};
  std::vector<const float*> inputs;
  for (const std::vector<float>& values : recurrent_) inputs.push_back(values.data());
  if (kind.later_inputs.empty()) {
    recurrence.run(std::span(inputs).first(kind.inputs.size()), scanned_.data());
  } else {
    mamba(recurrence);
  }
  if (kind.gated) ref::gate(own, w.ssm_norm, gate_.data(), batch_->rows, scanned_.data());
}

// Makes Δ, B and C of what was convolved.
void RefStep::mamba(const ref::Recurrence& recurrence) {
  const LayerWeights& w = recurrence.weights;
  const size_t rows = batch_->rows;
  std::vector<float> low(rows * w.ssm_low.n_out), bc(rows * w.ssm_bc.n_out);
  std::vector<float>&x = recurrent_[0], step(rows * w.ssm_dt.n_out);
  recurrence.run({{x.data()}}, x.data());
  multiply_(w.ssm_low, {}, x.data(), batch_->rows, low.data());
  multiply_(w.ssm_bc, {}, x.data(), batch_->rows, bc.data());
  const RecurrentPlan& own = recurrence.plan;
  for (size_t row = 0; row < rows && own.low_norm; ++row) {
    float* b = &bc[row * 2 * own.state];
    float* l = &low[row * own.step_rank];
    ref::rms_norm(l, w.ssm_dt_norm, own.low_norm.eps, l);
    ref::rms_norm(b, w.ssm_b_norm, own.low_norm.eps, b);
    ref::rms_norm(b + own.state, w.ssm_c_norm, own.low_norm.eps, b + own.state);
  }
  multiply_(w.ssm_dt, {}, low.data(), batch_->rows, step.data());
  recurrence.run({{x.data(), step.data(), bc.data()}}, scanned_.data());
}

void RefStep::recur_out(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  multiply(w.ssm_out, w.ssm_out_bias, scanned_.data(), update_.data());
  add_to_hidden(plan(layer).recurrent_scale(), plan(layer).attention_post_norm,
                w.attention_post_norm, w.attention_post_norm_bias);
}

}  // namespace tenon
