#include "core/model/blocks/latent.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

const NormPlan& norm(const ModelPlan&, const LayerPlan& l) {
  return l.latent.norm;
}

// K and V of one head after the other.
void places_of_heads(Model& model, uint32_t layer, std::vector<TensorPlace>& out) {
  const LatentAttentionPlan& latent = model.plan.layers[layer].latent;
  LayerWeights& weights = model.layers[layer];
  for (size_t head = 0; head < weights.k_absorb.size(); ++head) {
    out.push_back({latent.nope_dim, &weights.k_absorb[head], nullptr, true});
    out.push_back({latent.v_dim, &weights.v_expand[head], nullptr});
  }
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::q_a,
     .name = "self_attn.q_a_proj",
     .stored = "attn_q_a",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.latent.q_rank, l.latent.bias); },
     .in_layer = {.matrix = &LayerWeights::q_a, .bias = &LayerWeights::q_a_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::q_a_norm,
     .name = "self_attn.q_a_layernorm",
     .stored = "attn_q_a_norm",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_norm(l.latent.norm, l.latent.q_rank); },
     .norm = norm,
     .in_layer = {.vector = &LayerWeights::q_a_norm}},
    {.role = Role::q_b,
     .name = "self_attn.q_b_proj",
     .stored = "attn_q_b",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const bool two_steps = l.latent.q_rank > 0;
           return Extent{.rows = two_steps ? uint64_t{l.attention.heads} * l.latent.q_dim() : 0,
                         .columns = l.latent.q_rank,
                         .columns_axis = Axis::other};
         },
     .in_layer = {.matrix = &LayerWeights::q, .bias = &LayerWeights::q_bias},
     .reads = Reads::query_low,
     .adapters = true},
    {.role = Role::q,
     .name = "self_attn.q_proj",
     .stored = "attn_q",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const bool two_steps = l.latent.q_rank > 0;
           return from_stream(m, two_steps ? 0 : uint64_t{l.attention.heads} * l.latent.q_dim());
         },
     .in_layer = {.matrix = &LayerWeights::q, .bias = &LayerWeights::q_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::kv_a,
     .name = "self_attn.kv_a_proj_with_mqa",
     .stored = "attn_kv_a_mqa",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.latent.row_dim(), l.latent.bias); },
     .in_layer = {.matrix = &LayerWeights::kv_a, .bias = &LayerWeights::kv_a_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::kv_a_norm,
     .name = "self_attn.kv_a_layernorm",
     .stored = "attn_kv_a_norm",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_norm(l.latent.norm, l.latent.kv_rank); },
     .norm = norm,
     .in_layer = {.vector = &LayerWeights::kv_a_norm}},
    {.role = Role::kv_b,
     .name = "self_attn.kv_b_proj",
     .stored = "attn_kv_b",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const uint32_t of_head = l.latent.nope_dim + l.latent.v_dim;
           return Extent{.rows = uint64_t{l.attention.heads} * of_head,
                         .columns = l.latent.kv_rank,
                         .columns_axis = Axis::other};
         },
     .places = places_of_heads},
    {.role = Role::k_b,
     .name = "self_attn.k_b_proj",
     .stored = "attn_k_b",
     .in_heads = &LayerWeights::k_absorb},
    {.role = Role::v_b,
     .name = "self_attn.v_b_proj",
     .stored = "attn_v_b",
     .in_heads = &LayerWeights::v_expand},
    {.role = Role::output_gate,
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.attention.output_gate ? l.attention.heads : 0);
         },
     .in_layer = {.matrix = &LayerWeights::output_gate},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::output,
     .name = "self_attn.o_proj",
     .stored = "attn_output",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return to_stream(m, uint64_t{l.attention.heads} * l.latent.v_dim,
                            l.attention.output_bias);
         },
     .in_layer = {.matrix = &LayerWeights::output, .bias = &LayerWeights::output_bias},
     .reads = Reads::mixed,
     .adapters = true},
};

}  // namespace

constinit const Block kLatent{[](const LayerPlan& l) { return bool{l.latent}; }, kTensors};

}  // namespace tenon
