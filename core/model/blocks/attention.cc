#include "core/model/blocks/attention.h"

#include <bit>
#include <cmath>

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

constexpr Role kQkv[] = {Role::q, Role::k, Role::v};
constexpr Role kQAndGate[] = {Role::q, Role::output_gate};

// A shared block reads what entered the first layer next to the stream.
Extent from_input(const ModelPlan& m, const LayerPlan& l, uint64_t rows, bool bias, Axis axis) {
  Extent extent = from_stream(m, rows, bias, axis);
  if (!l.shared) return extent;
  extent.columns *= 2;
  extent.columns_axis = Axis::other;
  return extent;
}

// `width` is that of all KV heads.
Extent kv_extent(const ModelPlan& m, const LayerPlan& l, uint32_t width) {
  const SelfAttentionPlan& a = l.attention;
  return from_input(m, l, a.kv_from_layer < 0 ? width : 0, a.qkv_bias, Axis::kv_heads);
}

Extent k_extent(const ModelPlan& m, const LayerPlan& l) {
  return kv_extent(m, l, l.attention.kv_width());
}

const NormPlan& qk_norm(const ModelPlan&, const LayerPlan& l) {
  return l.attention.qk_norm;
}

// `width` is that of all heads.
Extent qk_norm_extent(const SelfAttentionPlan& a, uint32_t width, Axis axis) {
  const bool one = a.qk_norm_extent == QkNormExtent::head;
  return of_norm(a.qk_norm, one ? a.head_dim : width, one ? Axis::head_dim : axis);
}

Extent v_extent(const ModelPlan& m, const LayerPlan& l) {
  const SelfAttentionPlan& a = l.attention;
  return kv_extent(m, l, a.k_is_v ? 0 : a.v_width());
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::qkv,
     .stored = "attn_qkv",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const SelfAttentionPlan& a = l.attention;
           return from_stream(m, uint64_t{a.q_width()} + a.kv_width() + a.v_width(), a.qkv_bias);
         },
     .parts = kQkv,
     .adapters = true},
    {.role = Role::q_and_gate,
     .stored = "attn_q",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const SelfAttentionPlan& a = l.attention;
           return from_stream(m, a.q_width() + a.gate_width(), a.qkv_bias);
         },
     .parts = kQAndGate,
     .pieces =
         [](const LayerPlan& l, std::vector<PartRows>& out) {
           const uint64_t dim = l.attention.head_dim;
           for (uint64_t head = 0; head < l.attention.heads; ++head) {
             for (const uint32_t part : {0u, 1u}) out.push_back({part, head * dim, dim});
           }
         },
     .adapters = true},
    {.role = Role::q,
     .name = "self_attn.q_proj",
     .stored = "attn_q",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const SelfAttentionPlan& a = l.attention;
           return from_input(m, l, a.q_width(), a.qkv_bias, Axis::heads);
         },
     .in_layer = {.matrix = &LayerWeights::q, .bias = &LayerWeights::q_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::output_gate,
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const SelfAttentionPlan& a = l.attention;
           return from_stream(m, a.gate_width(), a.qkv_bias && a.gate_bias, Axis::heads);
         },
     .in_layer = {.matrix = &LayerWeights::output_gate, .bias = &LayerWeights::output_gate_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::k,
     .name = "self_attn.k_proj",
     .stored = "attn_k",
     .extent = k_extent,
     .in_layer = {.matrix = &LayerWeights::k, .bias = &LayerWeights::k_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::v,
     .name = "self_attn.v_proj",
     .stored = "attn_v",
     .extent = v_extent,
     .in_layer = {.matrix = &LayerWeights::v, .bias = &LayerWeights::v_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::q_norm,
     .name = "self_attn.q_norm",
     .stored = "attn_q_norm",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return qk_norm_extent(l.attention, l.attention.q_width(), Axis::heads);
         },
     .norm = qk_norm,
     .in_layer = {.vector = &LayerWeights::q_norm, .bias = &LayerWeights::q_norm_bias}},
    {.role = Role::k_norm,
     .name = "self_attn.k_norm",
     .stored = "attn_k_norm",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           if (l.attention.kv_from_layer >= 0) return Extent{};
           return qk_norm_extent(l.attention, l.attention.kv_width(), Axis::kv_heads);
         },
     .norm = qk_norm,
     .in_layer = {.vector = &LayerWeights::k_norm, .bias = &LayerWeights::k_norm_bias}},
    {.role = Role::mask_in,
     .stored = "attn_mask",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const SelfAttentionPlan& a = l.attention;
           return Extent{.rows = a.learned_mask ? a.kv_heads : 0,
                         .columns = a.v_width(),
                         .bias = a.qkv_bias,
                         .columns_axis = Axis::other};
         },
     .in_layer = {.matrix = &LayerWeights::mask_in, .bias = &LayerWeights::mask_in_bias},
     .adapters = true},
    {.role = Role::mask_rate,
     .stored = "attn_mask_rate",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return Extent{.rows = l.attention.learned_mask ? l.attention.kv_heads : 0};
         },
     .in_layer = {.vector = &LayerWeights::mask_rate},
     .draw = {.deviation = 0.3}},
    {.role = Role::attended_norm,
     .name = "self_attn.attn_sub_norm",
     .stored = "attn_sub_norm",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_norm(l.attention.attended_norm, l.attention.attended_width());
         },
     .norm = [](const ModelPlan&, const LayerPlan& l) -> const NormPlan& {
       return l.attention.attended_norm;
     },
     .in_layer = {.vector = &LayerWeights::attended_norm}},
    {.role = Role::output,
     .name = "self_attn.o_proj",
     .stored = "attn_output",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return to_stream(m, l.attention.attended_width(), l.attention.output_bias, Axis::heads);
         },
     .in_layer = {.matrix = &LayerWeights::output, .bias = &LayerWeights::output_bias},
     .reads = Reads::mixed,
     .adapters = true},
    {.role = Role::sinks,
     .name = "self_attn.sinks",
     .stored = "attn_sinks.weight",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return Extent{.rows = l.attention.sinks ? l.attention.heads : 0};
         },
     .places =
         [](Model& model, uint32_t layer, std::vector<TensorPlace>& out) {
           out.push_back({.rows = model.plan.layers[layer].attention.heads,
                          .vector = &model.plan.sinks[layer]});
         }},
};

}  // namespace

constinit const Block kAttention{
    [](const LayerPlan& l) { return l.attends() && !l.latent && !l.shared.borrows(); }, kTensors};

float QGrowth::at(uint32_t position) const {
  const uint32_t times = (position + ahead) / tokens;
  return static_cast<float>(1.0 + beta * std::log1p(static_cast<double>(times)));
}

std::vector<float> alibi_slopes(uint32_t heads, float max_bias) {
  const uint32_t whole = std::bit_floor(heads);
  std::vector<float> slopes;
  const auto add = [&](uint32_t power, uint32_t steps) {
    slopes.push_back(static_cast<float>(std::exp2(-double{max_bias} * power / steps)));
  };
  for (uint32_t power = 1; power <= whole; ++power) add(power, whole);
  for (uint32_t power = 1; slopes.size() < heads; power += 2) add(power, 2 * whole);
  return slopes;
}

}  // namespace tenon
