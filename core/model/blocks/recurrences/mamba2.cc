// One decay a head; heads of a group share what is written and read (arXiv:2405.21060). GGUF files
// store the numbers of heads as columns, and the norm's weights a group a row.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"

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
     .norm = [](const ModelPlan&, const LayerPlan& l) -> const NormPlan& {
       return l.recurrent.gate_norm;
     },
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

constexpr RecurrenceKind kKind{.kind = Recurrence::mamba2,
                               .name = "mamba2",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs};

}  // namespace

constinit const Block kMamba2Mixer{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::mamba2; }, kTensors, &kKind};

}  // namespace tenon
