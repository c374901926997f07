// A selective scan (arXiv:2312.00752): each channel decays by steps of its own.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/recurrences/formula.h"

namespace tenon {
namespace {

constexpr Role kIn[] = {Role::ssm_in_x, Role::ssm_in_gate};
constexpr Role kX[] = {Role::ssm_x_low, Role::ssm_x_bc};

Extent from_inner(const RecurrentPlan& r, uint64_t rows) {
  return {.rows = rows, .columns = r.inner(), .columns_axis = Axis::other};
}

const NormPlan& low_norm(const ModelPlan&, const LayerPlan& l) {
  return l.recurrent.low_norm;
}

Extent state_norm(const ModelPlan&, const LayerPlan& l) {
  return of_norm(l.recurrent.low_norm, l.recurrent.state);
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in,
     .stored = "ssm_in",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           return from_stream(m, 2 * uint64_t{r.inner()}, r.projection_bias);
         },
     .parts = kIn,
     .adapters = true},
    {.role = Role::ssm_in_x,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.inner()); },
     .in_layer = {.matrix = &LayerWeights::ssm_in, .bias = &LayerWeights::ssm_in_bias},
     .reads = Reads::mixer_input},
    {.role = Role::ssm_in_gate,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.inner()); },
     .in_layer = {.matrix = &LayerWeights::ssm_gate, .bias = &LayerWeights::ssm_gate_bias},
     .reads = Reads::mixer_input},
    {.role = Role::ssm_conv,
     .stored = "ssm_conv1d",
     .extent = convolution_extent,
     .in_layer = {.vector = &LayerWeights::ssm_conv, .bias = &LayerWeights::ssm_conv_bias},
     .draw = {.deviation = 0.5}},
    {.role = Role::ssm_x,
     .stored = "ssm_x",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return from_inner(l.recurrent, l.recurrent.step_rank + 2 * uint64_t{l.recurrent.state});
         },
     .parts = kX},
    {.role = Role::ssm_x_low,
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return from_inner(l.recurrent, l.recurrent.step_rank); },
     .in_layer = {.matrix = &LayerWeights::ssm_low}},
    {.role = Role::ssm_x_bc,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return from_inner(l.recurrent, 2 * uint64_t{l.recurrent.state});
         },
     .in_layer = {.matrix = &LayerWeights::ssm_bc}},
    {.role = Role::ssm_dt_norm,
     .stored = "ssm_dt_norm",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_norm(l.recurrent.low_norm, l.recurrent.step_rank);
         },
     .norm = low_norm,
     .in_layer = {.vector = &LayerWeights::ssm_dt_norm}},
    {.role = Role::ssm_b_norm,
     .stored = "ssm_b_norm",
     .extent = state_norm,
     .norm = low_norm,
     .in_layer = {.vector = &LayerWeights::ssm_b_norm}},
    {.role = Role::ssm_c_norm,
     .stored = "ssm_c_norm",
     .extent = state_norm,
     .norm = low_norm,
     .in_layer = {.vector = &LayerWeights::ssm_c_norm}},
    // Steps near 1/50: states remember some tens of tokens.
    {.role = Role::ssm_dt,
     .stored = "ssm_dt",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return Extent{.rows = l.recurrent.inner(),
                         .columns = l.recurrent.step_rank,
                         .bias = true,
                         .columns_axis = Axis::other};
         },
     .in_layer = {.matrix = &LayerWeights::ssm_dt, .bias = &LayerWeights::ssm_dt_bias},
     .bias_draw = {.mean = -4.0, .deviation = 0.05}},
    {.role = Role::ssm_a,
     .stored = "ssm_a",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           return of_numbers({r.inner(), r.state}, {r.inner(), r.state});
         },
     .in_layer = {.vector = &LayerWeights::ssm_a},
     .log_in_folders = true,
     .draw = {.mean = 1.0, .deviation = 0.7}},
    {.role = Role::ssm_d,
     .stored = "ssm_d",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_numbers({l.recurrent.inner()}, {l.recurrent.inner()});
         },
     .in_layer = {.vector = &LayerWeights::ssm_d},
     .draw = {.mean = 1.0, .deviation = 0.05}},
    {.role = Role::ssm_out,
     .stored = "ssm_out",
     .extent = recurrence_out_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_out, .bias = &LayerWeights::ssm_out_bias},
     .reads = Reads::mixed,
     .adapters = true},
};

std::array<uint32_t, 8> dims(const RecurrentPlan& r) {
  return {r.heads, r.state, r.width};
}

std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights& w) {
  return {{{r.channels(), r.width}, w.ssm_conv},
          {{r.channels()}, w.ssm_conv_bias},
          {{r.heads, r.state}, w.ssm_a},
          {{r.steps()}, w.ssm_dt_bias},
          {{r.heads}, w.ssm_d}};
}

constexpr RecurrentProduct kInputs[] = {
    {&RecurrentWeights::ssm_in, &RecurrentWeights::ssm_in_bias}};
constexpr RecurrentProduct kLaterInputs[] = {{&RecurrentWeights::ssm_dt},
                                             {&RecurrentWeights::ssm_bc}};

std::array<uint32_t, kMostRecurrentInputs> input_widths(const RecurrentPlan& r) {
  return {r.heads, r.heads, 2 * r.state};
}

// The first call convolves. The second: h ← exp(Δ·a)·h + Δ·B·c, y = C·h + d·c for each channel.
void advance(const RecurrentRow& row) {
  const size_t channels = row.dims[0], size = row.dims[1];
  if (row.inputs.size() == 1) return convolve_silu(row, channels, row.dims[2], row.out);
  const float *c = row.inputs[0], *step = row.inputs[1], *b = row.inputs[2];
  const std::vector<float>&a = row.parameters[2], &step_bias = row.parameters[3];
  for (size_t channel = 0; channel < channels; ++channel) {
    const double x = c[channel];
    const double delta = softplus(double{step[channel]} + step_bias[channel]);
    double sum = 0;
    for (size_t n = 0; n < size; ++n) {
      float& kept = row.state[n * channels + channel];  // [state, channels]
      kept = rounded(std::exp(delta * a[channel * size + n]) * kept + delta * b[n] * x);
      sum += double{kept} * b[size + n];
    }
    row.out[channel] = rounded(sum + row.parameters[4][channel] * x);
  }
}

constexpr RecurrenceExample kExamples[] = {{"mamba",
                                            {.kind = Recurrence::mamba,
                                             .heads = 19,
                                             .head_dim = 1,
                                             .state = 5,
                                             .groups = 1,
                                             .width = 4,
                                             .gate_norm = {}}}};

constexpr RecurrenceKind kKind{.kind = Recurrence::mamba,
                               .name = "mamba",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .later_inputs = kLaterInputs,
                               .input_widths = input_widths,
                               .advance = advance,
                               .examples = kExamples,
                               .settle = settle_decays};

}  // namespace

constinit const Block kMambaMixer{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::mamba; }, kTensors, &kKind};

}  // namespace tenon
