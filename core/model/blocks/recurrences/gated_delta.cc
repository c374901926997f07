// The gated delta rule (arXiv:2412.06464): a head's state is a matrix from keys to values, which
// decays, forgets what the key at hand reads, and keeps the key's value instead. Heads of values
// share the q and k of a key head. Checkpoints have what enters it as matrices of its own, or by
// key head.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/recurrences/formula.h"
#include "core/model/blocks/recurrences/tensors.h"

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

// Where q, k and v come in tensors of their own.
Extent keys_extent(const ModelPlan& m, const LayerPlan& l) {
  const RecurrentPlan& r = l.recurrent;
  return from_stream(m, r.inputs_apart ? uint64_t{r.groups} * r.state : 0);
}

// The second of two products; of rank 0 there is only one.
Extent of_low(uint64_t rows, uint32_t rank) {
  if (rank == 0) return {};
  return {.rows = rows, .columns = rank, .columns_axis = Axis::other};
}

Extent conv_part_extent(const RecurrentPlan& r, uint64_t channels) {
  if (!r.inputs_apart) return {};
  return of_numbers({channels, 1, r.width}, {1, channels, 1, r.width});
}

Extent key_convolution_extent(const ModelPlan&, const LayerPlan& l) {
  return conv_part_extent(l.recurrent, uint64_t{l.recurrent.groups} * l.recurrent.state);
}

// The three one after the other make one convolution.
template <uint32_t part>
void conv_place(Model& model, uint32_t layer, std::vector<TensorPlace>& out) {
  const RecurrentPlan& r = model.plan.layers[layer].recurrent;
  const uint64_t keys = uint64_t{r.groups} * r.state * r.width;
  TensorPlace place;
  place.rows = part == 2 ? uint64_t{r.inner()} * r.width : keys;
  place.vector = &model.layers[layer].ssm_conv;
  place.first = part * keys;
  out.push_back(place);
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in_by_key_heads,
     .stored = "ssm_in",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           return from_stream(m, r.gate_rank > 0 ? 0 : uint64_t{r.inner()} + r.channels());
         },
     .parts = kIn,
     .pieces = pieces_of_in,
     .stored_in_parts = true,
     .adapters = true},
    {.role = Role::ssm_in_x,
     .stored = "attn_qkv",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.recurrent.inputs_apart ? 0 : l.recurrent.channels());
         },
     .in_layer = {.matrix = &LayerWeights::ssm_in},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_q,
     .stored = "attn_q",
     .extent = keys_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_q},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_k,
     .stored = "attn_k",
     .extent = keys_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_k},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_in_v,
     .stored = "attn_v",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.recurrent.inputs_apart ? l.recurrent.inner() : 0);
         },
     .in_layer = {.matrix = &LayerWeights::ssm_v},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_gate_low,
     .stored = "ssm_g_a",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.gate_rank); },
     .in_layer = {.matrix = &LayerWeights::ssm_gate_low},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_gate_of_low,
     .stored = "ssm_g_b",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_low(l.recurrent.inner(), l.recurrent.gate_rank);
         },
     .in_layer = {.matrix = &LayerWeights::ssm_gate},
     .reads = Reads::gate_low,
     .adapters = true},
    {.role = Role::ssm_in_gate,
     .stored = "attn_gate",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.recurrent.gate_rank > 0 ? 0 : l.recurrent.inner());
         },
     .in_layer = {.matrix = &LayerWeights::ssm_gate},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_ba_by_key_heads,
     .stored = "ssm_ba",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           return from_stream(m, r.step_rank > 0 ? 0 : uint64_t{r.heads} + r.steps());
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
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.recurrent.step_rank > 0 ? 0 : l.recurrent.steps());
         },
     .in_layer = {.matrix = &LayerWeights::ssm_step},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_x_low,
     .stored = "ssm_f_a",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.recurrent.step_rank); },
     .in_layer = {.matrix = &LayerWeights::ssm_low},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_dt,
     .stored = "ssm_f_b",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_low(l.recurrent.steps(), l.recurrent.step_rank);
         },
     .in_layer = {.matrix = &LayerWeights::ssm_step},
     .reads = Reads::step_low,
     .adapters = true},
    {.role = Role::ssm_conv_q,
     .stored = "ssm_conv1d_q",
     .extent = key_convolution_extent,
     .places = conv_place<0>,
     .draw = {.deviation = 0.5}},
    {.role = Role::ssm_conv_k,
     .stored = "ssm_conv1d_k",
     .extent = key_convolution_extent,
     .places = conv_place<1>,
     .draw = {.deviation = 0.5}},
    {.role = Role::ssm_conv_v,
     .stored = "ssm_conv1d_v",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return conv_part_extent(l.recurrent, l.recurrent.inner());
         },
     .places = conv_place<2>,
     .draw = {.deviation = 0.5}},
    {.role = Role::ssm_conv,
     .stored = "ssm_conv1d",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return l.recurrent.inputs_apart ? Extent{} : convolution_extent(m, l);
         },
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
           // Kimi Linear has it in four dimensions, GGUF files of Ling 3 in two.
           const uint64_t heads = l.recurrent.heads;
           if (l.recurrent.step_rank > 0) return of_numbers({1, 1, heads, 1}, {1, 1, heads, 1});
           if (l.recurrent.inputs_apart) return of_numbers({heads}, {heads, 1});
           return of_numbers({heads}, {heads});
         },
     .in_layer = {.vector = &LayerWeights::ssm_a},
     .log_in_folders = true,
     .draw = {.mean = 1.0, .deviation = 0.7}},
    {.role = Role::ssm_norm,
     .stored = "ssm_norm",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return Extent{.rows = l.recurrent.head_dim}; },
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
  return {r.groups, r.heads, r.state, r.head_dim, r.width, r.decays};
}

std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights& w) {
  return {{{r.channels(), r.width}, w.ssm_conv},
          {{r.channels()}, w.ssm_conv_bias},
          {{r.heads}, w.ssm_a},
          {{r.steps()}, w.ssm_dt_bias},
          {.extents = {2}, .own = {r.strongest_decay, r.beta_scale}}};
}

constexpr Weight RecurrentWeights::*kApart[] = {&RecurrentWeights::ssm_q, &RecurrentWeights::ssm_k,
                                                &RecurrentWeights::ssm_v};
constexpr RecurrentProduct kInputs[] = {
    {.matrix = &RecurrentWeights::ssm_in, .bias = &RecurrentWeights::ssm_in_bias, .apart = kApart},
    {&RecurrentWeights::ssm_step, &RecurrentWeights::ssm_step_bias, &RecurrentWeights::ssm_low},
    {&RecurrentWeights::ssm_beta}};

std::array<uint32_t, kMostRecurrentInputs> input_widths(const RecurrentPlan& r) {
  return {r.channels(), r.steps(), r.heads};
}

// The logarithm of what element i of a head's keys decays by.
double log_decay(const RecurrentRow& row, size_t head, size_t i) {
  const size_t decays = row.dims[5], at = head * decays + (decays == 1 ? 0 : i);
  const double x = double{row.inputs[1][at]} + row.parameters[3][at];
  const double a = row.parameters[2][head], strongest = row.parameters[4][0];
  return strongest == 0 ? a * softplus(x) : strongest * sigmoid(-a * x);
}

// S ← e^g·S,  S ← S + k⊗β·(v - Sᵀk),  y = Sᵀq for each head of values; those of a group share q and
// k, whose norms are 1, that of q 1/√k.
void advance(const RecurrentRow& row) {
  const size_t groups = row.dims[0], heads = row.dims[1], size = row.dims[2], dim = row.dims[3];
  const size_t width = row.dims[4], keys = groups * size, channels = 2 * keys + heads * dim;
  const std::vector<float> c = convolved(row, channels, width);
  float* all = row.state + (width - 1) * channels;  // [heads, state, head_dim]
  const auto factor_of = [size](const float* x) {
    double squares = 0;
    for (size_t i = 0; i < size; ++i) squares += double{x[i]} * x[i];
    return 1.0 / std::sqrt(squares + 1e-6);
  };
  for (size_t head = 0; head < heads; ++head) {
    const float* q = c.data() + head * groups / heads * size;
    const float *k = q + keys, *v = c.data() + 2 * keys + head * dim;
    const double of_q = factor_of(q) / std::sqrt(static_cast<double>(size)), of_k = factor_of(k);
    const double written = double{row.parameters[4][1]} * sigmoid(row.inputs[2][head]);
    float* s = all + head * size * dim;
    for (size_t i = 0; i < size; ++i) {
      const double decay = std::exp(log_decay(row, head, i));
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
      row.out[head * dim + j] = rounded(sum);
    }
  }
}

// Two heads of keys, four of values.
constexpr RecurrentPlan example(uint32_t decays, float strongest, float scale) {
  return {.kind = Recurrence::gated_delta,
          .heads = 4,
          .head_dim = 9,
          .state = 6,
          .groups = 2,
          .width = 3,
          .decays = decays,
          .strongest_decay = strongest,
          .beta_scale = scale,
          .gate_norm = {}};
}
constexpr RecurrenceExample kExamples[] = {
    {"gated_delta", example(1, 0.0f, 1.0f)},
    {"gated_delta with a decay for each element of a key", example(6, -5.0f, 2.0f)}};

constexpr RecurrenceKind kKind{.kind = Recurrence::gated_delta,
                               .name = "gated_delta",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .input_widths = input_widths,
                               .advance = advance,
                               .examples = kExamples,
                               .settle = settle_decays};

}  // namespace

constinit const Block kGatedDelta{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::gated_delta; }, kTensors,
    &kKind};

}  // namespace tenon
