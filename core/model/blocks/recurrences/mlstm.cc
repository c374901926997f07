// xLSTM's matrix memory (mLSTM, arXiv:2405.04517, section 2.3): a head's state is a matrix from
// keys to values and a vector that adds up the keys, by which the output is divided. Both gates are
// exponential, so the state is kept less a factor whose logarithm stands next to it.
#include <array>

#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/recurrences/formula.h"
#include "core/model/blocks/recurrences/tensors.h"

namespace tenon {
namespace {

Extent keys_extent(const ModelPlan& m, const LayerPlan& l) {
  return from_stream(m, uint64_t{l.recurrent.heads} * l.recurrent.state);
}
Extent values_extent(const ModelPlan& m, const LayerPlan& l) {
  return from_stream(m, l.recurrent.inner());
}
Extent gates_extent(const ModelPlan& m, const LayerPlan& l) {
  return from_stream(m, l.recurrent.heads, true);
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in_q,
     .extent = keys_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_q},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_k,
     .extent = keys_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_k},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_v,
     .extent = values_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_v},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_gate,
     .extent = values_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_gate},
     .reads = Reads::mixer_input,
     .adapters = true},
    // What is written is weak at first, and kept for some tens of tokens.
    {.role = Role::ssm_beta,
     .extent = gates_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_beta, .bias = &LayerWeights::ssm_beta_bias},
     .reads = Reads::mixer_input,
     .adapters = true,
     .bias_draw = {.mean = -2.0, .deviation = 0.7}},
    {.role = Role::ssm_in_step,
     .extent = gates_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_step, .bias = &LayerWeights::ssm_step_bias},
     .reads = Reads::mixer_input,
     .adapters = true,
     .bias_draw = {.mean = 4.0, .deviation = 0.7}},
    kInnerNorm,
    kPlainOut,
};

std::array<uint32_t, 8> dims(const RecurrentPlan& r) {
  return {r.heads, r.head_dim, r.state};
}

std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights&) {
  return {{.extents = {2}, .own = {r.gate_cap, r.divisor_eps}}};
}

constexpr Weight RecurrentWeights::*kApart[] = {&RecurrentWeights::ssm_q, &RecurrentWeights::ssm_k,
                                                &RecurrentWeights::ssm_v};
constexpr RecurrentProduct kInputs[] = {
    {.matrix = &RecurrentWeights::ssm_in, .apart = kApart},
    {&RecurrentWeights::ssm_beta, &RecurrentWeights::ssm_beta_bias},
    {&RecurrentWeights::ssm_step, &RecurrentWeights::ssm_step_bias}};

std::array<uint32_t, kMostRecurrentInputs> input_widths(const RecurrentPlan& r) {
  return {r.channels(), r.heads, r.heads};
}

double capped(double x, double cap) {
  return cap == 0 ? x : cap * std::tanh(x / cap);
}

// With i and f capped, log f' = -softplus(-f):
// m' = max(log f' + m, i),  C ← e^(log f' + m - m')·C + e^(i - m')·v⊗k, n likewise with k,
// y = C·q/√k / (max(|n·q|/√k, e^-m') + ε) for each head.
void advance(const RecurrentRow& row) {
  const size_t heads = row.dims[0], dim = row.dims[1], size = row.dims[2], inner = heads * dim;
  const double cap = row.parameters[0][0], eps = row.parameters[0][1];
  const double scale = 1.0 / std::sqrt(static_cast<double>(size));
  for (size_t head = 0; head < heads; ++head) {
    const float* q = row.inputs[0] + head * size;
    const float *k = q + heads * size, *v = row.inputs[0] + 2 * heads * size + head * dim;
    float* c = row.state + head * dim * size;             // [heads, head_dim, state]
    float* n = row.state + inner * size + head * size;    // [heads, state]
    float& m = row.state[(inner + heads) * size + head];  // [heads]
    const double i = capped(row.inputs[1][head], cap);
    const double kept_log = double{m} - softplus(-capped(row.inputs[2][head], cap));
    m = rounded(std::max(kept_log, i));
    const double keeps = std::exp(kept_log - m), writes = std::exp(i - m);
    double along = 0;
    for (size_t at = 0; at < size; ++at) {
      n[at] = rounded(keeps * n[at] + writes * k[at]);
      along += double{n[at]} * q[at];
    }
    const double divisor = std::max(std::abs(along) * scale, std::exp(-double{m})) + eps;
    for (size_t p = 0; p < dim; ++p) {
      double sum = 0;
      for (size_t at = 0; at < size; ++at) {
        float& kept = c[p * size + at];
        kept = rounded(keeps * kept + writes * v[p] * k[at]);
        sum += double{kept} * q[at];
      }
      row.out[head * dim + p] = rounded(sum * scale / divisor);
    }
  }
}

constexpr RecurrentPlan example(uint32_t dim, float cap) {
  return {.kind = Recurrence::mlstm,
          .heads = 3,
          .head_dim = dim,
          .state = 6,
          .groups = 3,
          .width = 1,
          .gate_cap = cap,
          .divisor_eps = 1e-6f,
          .gate_norm = {}};
}
constexpr RecurrenceExample kExamples[] = {{"mlstm", example(7, 0.0f)},
                                           {"mlstm with capped gates", example(19, 0.8f)}};

constexpr RecurrenceKind kKind{.kind = Recurrence::mlstm,
                               .name = "mlstm",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .input_widths = input_widths,
                               .advance = advance,
                               .examples = kExamples};

}  // namespace

constinit const Block kMlstm{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::mlstm; }, kTensors, &kKind};

}  // namespace tenon
