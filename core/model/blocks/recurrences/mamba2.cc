// One decay a head; heads of a group share what is written and read (arXiv:2405.21060). GGUF files
// store the numbers of heads as columns, and the norm's weights a group a row.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/recurrences/formula.h"
#include "core/model/blocks/recurrences/tensors.h"

namespace tenon {
namespace {

constexpr Role kIn[] = {Role::ssm_in_gate, Role::ssm_in_x, Role::ssm_in_step};

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in,
     .stored = "ssm_in",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           return from_stream(m, uint64_t{r.inner()} + r.channels() + r.heads, r.projection_bias);
         },
     .parts = kIn,
     .adapters = true},
    {.role = Role::ssm_in_gate,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.inner()); },
     .in_layer = {.matrix = &LayerWeights::ssm_gate, .bias = &LayerWeights::ssm_gate_bias},
     .reads = Reads::mixer_input},
    {.role = Role::ssm_in_x,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.channels()); },
     .in_layer = {.matrix = &LayerWeights::ssm_in, .bias = &LayerWeights::ssm_in_bias},
     .reads = Reads::mixer_input},
    {.role = Role::ssm_in_step,
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.heads); },
     .in_layer = {.matrix = &LayerWeights::ssm_step, .bias = &LayerWeights::ssm_step_bias},
     .reads = Reads::mixer_input},
    {.role = Role::ssm_conv,
     .stored = "ssm_conv1d",
     .extent = convolution_extent,
     .in_layer = {.vector = &LayerWeights::ssm_conv, .bias = &LayerWeights::ssm_conv_bias},
     .draw = {.deviation = 0.5}},
    {.role = Role::ssm_dt_bias,
     .stored = "ssm_dt.bias",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_numbers({l.recurrent.heads}, {l.recurrent.heads});
         },
     .in_layer = {.vector = &LayerWeights::ssm_dt_bias},
     .draw = {.mean = -4.0, .deviation = 0.7}},
    {.role = Role::ssm_a,
     .stored = "ssm_a",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_numbers({l.recurrent.heads}, {l.recurrent.heads, 1});
         },
     .in_layer = {.vector = &LayerWeights::ssm_a},
     .log_in_folders = true,
     .draw = {.mean = 1.0, .deviation = 0.7}},
    {.role = Role::ssm_d,
     .stored = "ssm_d",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_numbers({l.recurrent.heads}, {l.recurrent.heads, 1});
         },
     .in_layer = {.vector = &LayerWeights::ssm_d},
     .draw = {.mean = 1.0, .deviation = 0.05}},
    {.role = Role::ssm_norm,
     .stored = "ssm_norm",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           if (!r.gate_norm) return Extent{};
           return of_numbers({r.inner()}, {r.groups, r.inner() / r.groups});
         },
     .norm = gate_norm_of,
     .in_layer = {.vector = &LayerWeights::ssm_norm}},
    {.role = Role::ssm_out,
     .stored = "ssm_out",
     .extent = recurrence_out_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_out, .bias = &LayerWeights::ssm_out_bias},
     .reads = Reads::mixed,
     .adapters = true},
};

std::array<uint32_t, 8> dims(const RecurrentPlan& r) {
  return {r.heads, r.head_dim, r.state, r.groups, r.width};
}

std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights& w) {
  return {{{r.channels(), r.width}, w.ssm_conv},
          {{r.channels()}, w.ssm_conv_bias},
          {{r.heads}, w.ssm_a},
          {{r.steps()}, w.ssm_dt_bias},
          {{r.heads}, w.ssm_d},
          {.extents = {2}, .own = {r.least_step, r.most_step}}};
}

constexpr RecurrentProduct kInputs[] = {
    {&RecurrentWeights::ssm_in, &RecurrentWeights::ssm_in_bias},
    {&RecurrentWeights::ssm_step, &RecurrentWeights::ssm_step_bias}};

std::array<uint32_t, kMostRecurrentInputs> input_widths(const RecurrentPlan& r) {
  return {r.channels(), r.heads};
}

// h ← exp(Δ·a)·h + Δ·x⊗B,  y = h·C + d·x for each head; a group's heads share B and C.
void advance(const RecurrentRow& row) {
  const size_t heads = row.dims[0], dim = row.dims[1], size = row.dims[2], groups = row.dims[3];
  const size_t width = row.dims[4], inner = heads * dim, channels = inner + 2 * groups * size;
  const std::vector<float> x = convolved(row, channels, width);
  const std::vector<float>&a = row.parameters[2], &step_bias = row.parameters[3];
  const std::vector<float>&d = row.parameters[4], &limits = row.parameters[5];
  float* h = row.state + (width - 1) * channels;  // [heads, head_dim, state]
  for (size_t head = 0; head < heads; ++head) {
    const float* b = &x[inner + head * groups / heads * size];
    const float* c = b + groups * size;
    const double delta = std::clamp(softplus(double{row.inputs[1][head]} + step_bias[head]),
                                    double{limits[0]}, double{limits[1]});
    const double decay = std::exp(delta * a[head]);
    for (size_t p = head * dim; p < (head + 1) * dim; ++p) {
      double sum = 0;
      for (size_t n = 0; n < size; ++n) {
        float& kept = h[p * size + n];
        kept = rounded(decay * kept + delta * x[p] * b[n]);
        sum += double{kept} * c[n];
      }
      row.out[p] = rounded(sum + double{d[head]} * x[p]);
    }
  }
}

constexpr RecurrenceExample kExamples[] = {{"mamba2",
                                            {.kind = Recurrence::mamba2,
                                             .heads = 4,
                                             .head_dim = 5,
                                             .state = 7,
                                             .groups = 2,
                                             .width = 3,
                                             .least_step = 0.3f,
                                             .most_step = 0.9f,
                                             .gate_norm = {}}}};

constexpr RecurrenceKind kKind{.kind = Recurrence::mamba2,
                               .name = "mamba2",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .input_widths = input_widths,
                               .advance = advance,
                               .examples = kExamples,
                               .settle = settle_decays};

}  // namespace

constinit const Block kMamba2Mixer{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::mamba2; }, kTensors, &kKind};

}  // namespace tenon
