// The gated delta rule (arXiv:2412.06464): a head's state is a matrix from keys to values, which
// decays, forgets what the key at hand reads, and keeps the key's value instead. Heads of values
// share the q and k of a key head. Checkpoints have what enters it as matrices of its own, or by
// key head.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"

namespace tenon {
namespace {

constexpr Role kIn[] = {Role::ssm_in_x, Role::ssm_in_gate};
constexpr Role kBa[] = {Role::ssm_beta, Role::ssm_in_step};

// [q | k | its v heads | the gates of these] for each key head.
void pieces_of_in(const LayerPlan& l, std::vector<PartRows>& out) {
  const RecurrentPlan& r = l.recurrent;
  const uint64_t k = r.state, keys = r.groups * k;
  const uint64_t values = uint64_t{r.heads} / r.groups * r.head_dim;
  for (uint64_t group = 0; group < r.groups; ++group) {
    out.push_back({0, group * k, k});
    out.push_back({0, keys + group * k, k});
    out.push_back({0, 2 * keys + group * values, values});
    out.push_back({1, group * values, values});
  }
}

void pieces_of_ba(const LayerPlan& l, std::vector<PartRows>& out) {
  const uint64_t heads = l.recurrent.heads / l.recurrent.groups;
  for (uint64_t group = 0; group < l.recurrent.groups; ++group) {
    for (const uint32_t part : {0u, 1u}) out.push_back({part, group * heads, heads});
  }
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in_by_key_heads,
     .stored = "ssm_in",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, uint64_t{l.recurrent.inner()} + l.recurrent.channels());
         },
     .parts = kIn,
     .pieces = pieces_of_in,
     .stored_in_parts = true,
     .adapters = true},
    {.role = Role::ssm_in_x,
     .stored = "attn_qkv",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.channels()); },
     .in_layer = {.matrix = &LayerWeights::ssm_in},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_gate,
     .stored = "attn_gate",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.inner()); },
     .in_layer = {.matrix = &LayerWeights::ssm_gate},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_ba_by_key_heads,
     .stored = "ssm_ba",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, uint64_t{l.recurrent.heads} + l.recurrent.steps());
         },
     .parts = kBa,
     .pieces = pieces_of_ba,
     .adapters = true},
    {.role = Role::ssm_beta,
     .stored = "ssm_beta",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.heads); },
     .in_layer = {.matrix = &LayerWeights::ssm_beta},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_step,
     .stored = "ssm_alpha",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.steps()); },
     .in_layer = {.matrix = &LayerWeights::ssm_step},
     .reads = Reads::mixer_input,
     .adapters = true},
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
           return of_numbers({l.recurrent.steps()}, {l.recurrent.steps()});
         },
     .in_layer = {.vector = &LayerWeights::ssm_dt_bias},
     .draw = {.mean = -4.0, .deviation = 0.7}},
    {.role = Role::ssm_a,
     .stored = "ssm_a",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_numbers({l.recurrent.heads}, {l.recurrent.heads});
         },
     .in_layer = {.vector = &LayerWeights::ssm_a},
     .log_in_folders = true,
     .draw = {.mean = 1.0, .deviation = 0.7}},
    {.role = Role::ssm_norm,
     .stored = "ssm_norm",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return Extent{.rows = l.recurrent.head_dim}; },
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
  return {r.groups, r.heads, r.state, r.head_dim, r.width, r.decays};
}

std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights& w) {
  return {{{r.channels(), r.width}, w.ssm_conv},
          {{r.channels()}, w.ssm_conv_bias},
          {{r.heads}, w.ssm_a},
          {{r.steps()}, w.ssm_dt_bias},
          {.extents = {1}, .own = {r.strongest_decay}}};
}

constexpr RecurrentProduct kInputs[] = {
    {&RecurrentWeights::ssm_in, &RecurrentWeights::ssm_in_bias},
    {&RecurrentWeights::ssm_step, &RecurrentWeights::ssm_step_bias},
    {&RecurrentWeights::ssm_beta}};

constexpr RecurrenceKind kKind{.kind = Recurrence::gated_delta,
                               .name = "gated_delta",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs};

}  // namespace

constinit const Block kGatedDelta{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::gated_delta; }, kTensors,
    &kKind};

}  // namespace tenon
