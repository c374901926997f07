#include "core/exec/ref/blocks/recurrence.h"

#include <algorithm>
#include <cmath>

#include "core/exec/ref/math.h"
#include "core/exec/ref/step.h"

namespace tenon::ref {
namespace {

using Inputs = std::span<const float* const>;

// log(1 + eˣ), without overflow.
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

float rounded(double x) {
  return static_cast<float>(x);
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

namespace {

// The convolution of x [rows, channels], which is kept; finish(row, channel, sum) takes its sums.
template <typename Input, typename Finish>
void convolve(const Recurrence& r, Input input, Finish finish) {
  const size_t channels = r.plan.channels(), width = r.plan.width, before = width - 1;
  const std::vector<float>&conv = r.weights.ssm_conv, &bias = r.weights.ssm_conv_bias;
  r.each_row(0, before * channels, [&](size_t row, float* last) {  // last [width-1, channels]
    for (size_t channel = 0; channel < channels; ++channel) {
      const float now = input(row, channel);
      double sum = bias.empty() ? 0.0 : bias[channel];
      for (size_t j = 0; j < before; ++j) {
        sum += double{conv[channel * width + j]} * last[j * channels + channel];
      }
      sum += double{conv[channel * width + before]} * now;
      finish(row, channel, sum);
      for (size_t j = 0; j + 1 < before; ++j) {
        last[j * channels + channel] = last[(j + 1) * channels + channel];
      }
      if (before > 0) last[(before - 1) * channels + channel] = now;
    }
  });
}

// x [rows, channels] → silu(convolution of it); may be in place.
void convolve_silu(const Recurrence& r, const float* x, float* out) {
  const size_t channels = r.plan.channels();
  convolve(
      r, [&](size_t row, size_t channel) { return x[row * channels + channel]; },
      [&](size_t row, size_t channel, double sum) {
        out[row * channels + channel] = activate(Activation::silu, rounded(sum));
      });
}

std::vector<float> convolved(const Recurrence& r, const float* x) {
  std::vector<float> out(r.batch.rows * size_t{r.plan.channels()});
  convolve_silu(r, x, out.data());
  return out;
}

// bcx [rows, 3·channels]: y = C · conv(B · x).
void short_conv(const Recurrence& r, Inputs inputs, float* y) {
  const size_t channels = r.plan.channels();
  const auto at = [&](size_t row, size_t part, size_t channel) {
    return double{inputs[0][(3 * row + part) * channels + channel]};
  };
  convolve(
      r,
      [&](size_t row, size_t channel) {
        return rounded(at(row, 0, channel) * at(row, 2, channel));
      },
      [&](size_t row, size_t channel, double sum) {
        y[row * channels + channel] = rounded(at(row, 1, channel) * sum);
      });
}

// h ← exp(Δ·a)·h + Δ·B·c,  y = C·h + d·c  for each channel.
void scan_channels(const Recurrence& r, Inputs inputs, float* y) {
  const float *c = inputs[0], *step = inputs[1], *bc = inputs[2];
  const RecurrentPlan& plan = r.plan;
  const size_t channels = plan.inner(), size = plan.state;
  const LayerWeights& w = r.weights;
  const size_t first = size_t{plan.width - 1} * channels;
  r.each_row(first, channels * size, [&](size_t row, float* h) {  // h [state, channels]
    const float* b = bc + row * 2 * size;
    for (size_t channel = 0; channel < channels; ++channel) {
      const double x = c[row * channels + channel];
      const double delta =
          softplus(double{step[row * channels + channel]} + w.ssm_dt_bias[channel]);
      double sum = 0;
      for (size_t n = 0; n < size; ++n) {
        float& kept = h[n * channels + channel];
        kept = rounded(std::exp(delta * w.ssm_a[channel * size + n]) * kept + delta * b[n] * x);
        sum += double{kept} * b[size + n];
      }
      y[row * channels + channel] = rounded(sum + w.ssm_d[channel] * x);
    }
  });
}

// h ← exp(Δ·a)·h + Δ·x⊗B,  y = h·C + d·x  for each head; a group's heads share B and C.
void scan_heads(const Recurrence& r, Inputs inputs, float* y) {
  const std::vector<float> c = convolved(r, inputs[0]);
  const float* step = inputs[1];
  const RecurrentPlan& plan = r.plan;
  const size_t heads = plan.heads, dim = plan.head_dim, size = plan.state;
  const size_t inner = plan.inner(), channels = plan.channels();
  const LayerWeights& w = r.weights;
  const size_t first = size_t{plan.width - 1} * channels;
  r.each_row(first, inner * size, [&](size_t row, float* h) {  // h [heads, head_dim, state]
    const float* x = &c[row * channels];
    for (size_t head = 0; head < heads; ++head) {
      const float* b = x + inner + head * plan.groups / heads * size;
      const float* out = b + plan.groups * size;
      const double delta =
          std::clamp(softplus(double{step[row * heads + head]} + w.ssm_dt_bias[head]),
                     double{plan.least_step}, double{plan.most_step});
      const double decay = std::exp(delta * w.ssm_a[head]);
      for (size_t p = head * dim; p < (head + 1) * dim; ++p) {
        double sum = 0;
        for (size_t n = 0; n < size; ++n) {
          float& kept = h[p * size + n];
          kept = rounded(decay * kept + delta * x[p] * b[n]);
          sum += double{kept} * out[n];
        }
        y[row * inner + p] = rounded(sum + double{w.ssm_d[head]} * x[p]);
      }
    }
  });
}

// S ← e^(-rate)·S + v⊗k,  y = S·q  for each head, of q, k and v by SiLU.
void scan_decays(const Recurrence& r, Inputs inputs, float* y) {
  const RecurrentPlan& plan = r.plan;
  const size_t heads = plan.heads, dim = plan.head_dim, size = plan.state;
  const size_t inner = plan.inner(), channels = plan.channels();
  const auto at = [&](size_t row, size_t channel) {
    return double{activate(Activation::silu, inputs[0][row * channels + channel])};
  };
  r.each_row(0, inner * size, [&](size_t row, float* s) {  // s [heads, head_dim, state]
    for (size_t head = 0; head < heads; ++head) {
      const double decay = std::exp(-double{r.weights.ssm_a[head]});
      for (size_t p = head * dim; p < (head + 1) * dim; ++p) {
        double sum = 0;
        for (size_t n = 0; n < size; ++n) {
          float& kept = s[p * size + n];
          kept = rounded(decay * kept + at(row, p) * at(row, inner + head * size + n));
          sum += double{kept} * at(row, inner + (heads + head) * size + n);
        }
        y[row * inner + p] = rounded(sum);
      }
    }
  });
}

// g of element i of a head's keys.
double log_decay(const Recurrence& r, const float* step, size_t row, size_t head, size_t i) {
  const RecurrentPlan& plan = r.plan;
  const size_t at = head * plan.decays + (plan.decays == 1 ? 0 : i);
  const double x = double{step[row * plan.steps() + at]} + r.weights.ssm_dt_bias[at];
  const double a = r.weights.ssm_a[head];
  return plan.strongest_decay == 0 ? a * softplus(x) : plan.strongest_decay * sigmoid(-a * x);
}

// The gated delta rule:
// S ← e^g·S,  S ← S + k⊗β·(v - Sᵀk),  y = Sᵀq for each head of values; those of a group share q and
// k, whose norms are 1, that of q 1/√k.
void scan_delta(const Recurrence& r, Inputs inputs, float* y) {
  const std::vector<float> c = convolved(r, inputs[0]);
  const float *step = inputs[1], *beta = inputs[2];
  const RecurrentPlan& plan = r.plan;
  const size_t heads = plan.heads, dim = plan.head_dim, size = plan.state;
  const size_t inner = plan.inner(), channels = plan.channels(), keys = plan.groups * size;
  const size_t first = size_t{plan.width - 1} * channels;
  const auto factor_of = [size](const float* x) {
    double squares = 0;
    for (size_t i = 0; i < size; ++i) squares += double{x[i]} * x[i];
    return 1.0 / std::sqrt(squares + 1e-6);
  };
  r.each_row(first, inner * size, [&](size_t row, float* all) {  // [heads, state, head_dim]
    for (size_t head = 0; head < heads; ++head) {
      const float* q = &c[row * channels] + head * plan.groups / heads * size;
      const float *k = q + keys, *v = &c[row * channels] + 2 * keys + head * dim;
      const double of_q = factor_of(q) / std::sqrt(static_cast<double>(size)), of_k = factor_of(k);
      const double written = double{plan.beta_scale} * sigmoid(beta[row * heads + head]);
      float* s = all + head * size * dim;
      for (size_t i = 0; i < size; ++i) {
        const double decay = std::exp(log_decay(r, step, row, head, i));
        for (size_t j = 0; j < dim; ++j) s[i * dim + j] = rounded(decay * s[i * dim + j]);
      }
      for (size_t j = 0; j < dim; ++j) {
        double read = 0, sum = 0;
        for (size_t i = 0; i < size; ++i) read += double{s[i * dim + j]} * of_k * k[i];
        const double change = written * (v[j] - read);
        for (size_t i = 0; i < size; ++i) {
          float& kept = s[i * dim + j];
          kept = rounded(kept + of_k * k[i] * change);
          sum += double{kept} * of_q * q[i];
        }
        y[row * inner + head * dim + j] = rounded(sum);
      }
    }
  });
}

}  // namespace

void Recurrence::run(Inputs inputs, float* y) const {
  switch (plan.kind) {
    case tenon::Recurrence::mamba:
      return inputs.size() == 1 ? convolve_silu(*this, inputs[0], y)
                                : scan_channels(*this, inputs, y);
    case tenon::Recurrence::mamba2:
      return scan_heads(*this, inputs, y);
    case tenon::Recurrence::gated_delta:
      return scan_delta(*this, inputs, y);
    case tenon::Recurrence::short_conv:
      return short_conv(*this, inputs, y);
    case tenon::Recurrence::lightning:
      return scan_decays(*this, inputs, y);
    case tenon::Recurrence::none:
      return;
  }
}

namespace {

void norm_parts(const RecurrentPlan& plan, std::span<const float> scale, uint32_t rows, float* y) {
  const size_t width = plan.inner() / plan.norms();
  for (size_t at = 0; at < size_t{rows} * plan.inner(); at += width) {
    rms_norm(y + at, scale.subspan(at % scale.size(), width), plan.gate_norm.eps, y + at);
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
    const double factor =
        plan.sigmoid_gate ? sigmoid(gate[i]) : activate(Activation::silu, gate[i]);
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
    if (kind.inputs[i].zeros == nullptr) multiply(kind.inputs[i], w, x, recurrent_[i]);
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
