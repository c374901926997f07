#include "core/model/blocks/experts.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

constexpr Role kSharedGateAndUp[] = {Role::shared_gate, Role::shared_up};

Extent of_each(const ExpertsPlan& experts, Extent extent) {
  extent.experts = experts.count;
  return extent;
}

// Experts of another width than the stream's read what is made of it.
Extent into_each(const ModelPlan& m, const LayerPlan& l) {
  Extent extent = of_each(l.experts, from_stream(m, l.experts.width, l.experts.bias));
  if (l.experts.latent_width == 0) return extent;
  extent.columns = l.experts.latent_width;
  extent.columns_axis = Axis::other;
  return extent;
}

Extent gate_of_each(const ModelPlan& m, const LayerPlan& l) {
  return l.experts.gated ? into_each(m, l) : Extent{};
}

Extent out_of_each(const ModelPlan& m, const LayerPlan& l) {
  Extent extent = of_each(l.experts, to_stream(m, l.experts.width, l.experts.bias));
  if (l.experts.latent_width == 0) return extent;
  extent.rows = l.experts.latent_width;
  extent.rows_axis = Axis::other;
  return extent;
}

Extent into_shared(const ModelPlan& m, const LayerPlan& l) {
  return from_stream(m, l.experts.shared_width, l.experts.shared_bias);
}

const NormPlan& beside_norm(const ModelPlan&, const LayerPlan& l) {
  return l.experts.beside_norm;
}
Extent beside_extent(const ModelPlan& m, const LayerPlan& l) {
  return of_norm(l.experts.beside_norm, m.hidden, Axis::hidden);
}

Extent gate_of_shared(const ModelPlan& m, const LayerPlan& l) {
  return l.experts.gated ? into_shared(m, l) : Extent{};
}

constexpr BlockTensor kTensors[] = {
    {.role = Role::router,
     .name = "mlp.gate",
     .stored = "ffn_gate_inp",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.experts.routed(), l.experts.router_bias);
         },
     .in_layer = {.matrix = &LayerWeights::router, .bias = &LayerWeights::router_bias},
     .exact = true},
    {.role = Role::router_correction,
     .name = "mlp.gate.e_score_correction_bias",
     .stored = "exp_probs_b.bias",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return Extent{.rows = l.experts.correction ? l.experts.routed() : 0};
         },
     .in_layer = {.vector = &LayerWeights::router_correction}},
    {.role = Role::expert_gate,
     .name = "mlp.experts.*.gate_proj",
     .stored = "ffn_gate_exps",
     .extent = gate_of_each,
     .in_experts = {.matrix = &ExpertWeights::gate, .bias = &ExpertWeights::gate_bias},
     .reads = Reads::mlp_input},
    {.role = Role::expert_up,
     .name = "mlp.experts.*.up_proj",
     .stored = "ffn_up_exps",
     .extent = into_each,
     .in_experts = {.matrix = &ExpertWeights::up, .bias = &ExpertWeights::up_bias},
     .reads = Reads::mlp_input},
    {.role = Role::expert_down,
     .name = "mlp.experts.*.down_proj",
     .stored = "ffn_down_exps",
     .extent = out_of_each,
     .in_experts = {.matrix = &ExpertWeights::down, .bias = &ExpertWeights::down_bias},
     .reads = Reads::mlp_inner},
    {.role = Role::shared_gate_up,
     .stored = "ffn_gate_up_shexp",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, 2 * uint64_t{l.experts.shared_width}, l.experts.shared_bias);
         },
     .parts = kSharedGateAndUp},
    {.role = Role::shared_gate,
     .name = "mlp.shared_experts.gate_proj",
     .stored = "ffn_gate_shexp",
     .extent = gate_of_shared,
     .in_layer = {.matrix = &LayerWeights::shared_gate, .bias = &LayerWeights::shared_gate_bias},
     .reads = Reads::mlp_input},
    {.role = Role::shared_up,
     .name = "mlp.shared_experts.up_proj",
     .stored = "ffn_up_shexp",
     .extent = into_shared,
     .in_layer = {.matrix = &LayerWeights::shared_up, .bias = &LayerWeights::shared_up_bias},
     .reads = Reads::mlp_input},
    {.role = Role::shared_down,
     .name = "mlp.shared_experts.down_proj",
     .stored = "ffn_down_shexp",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return to_stream(m, l.experts.shared_width, l.experts.shared_bias);
         },
     .in_layer = {.matrix = &LayerWeights::shared_down, .bias = &LayerWeights::shared_down_bias},
     .reads = Reads::mlp_inner},
    {.role = Role::shared_router,
     .name = "mlp.shared_expert_gate",
     .stored = "ffn_gate_inp_shexp",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.experts.shared_width > 0 && l.experts.shared_gate ? 1 : 0);
         },
     .in_layer = {.matrix = &LayerWeights::shared_router},
     .exact = true},
    {.role = Role::router_norm,
     .name = "router.scale",
     .stored = "ffn_gate_inp.scale",
     .whole = true,
     .extent = beside_extent,
     .norm = beside_norm,
     .in_layer = {.vector = &LayerWeights::router_norm}},
    {.role = Role::experts_norm,
     .name = "pre_feedforward_layernorm_2",
     .stored = "pre_ffw_norm_2",
     .extent = beside_extent,
     .norm = beside_norm,
     .in_layer = {.vector = &LayerWeights::experts_norm}},
    {.role = Role::experts_post_norm,
     .name = "post_feedforward_layernorm_2",
     .stored = "post_ffw_norm_2",
     .extent = beside_extent,
     .norm = beside_norm,
     .in_layer = {.vector = &LayerWeights::experts_post_norm}},
    {.role = Role::mlp_own_norm,
     .name = "post_feedforward_layernorm_1",
     .stored = "post_ffw_norm_1",
     .extent = beside_extent,
     .norm = beside_norm,
     .in_layer = {.vector = &LayerWeights::mlp_own_norm}},
    {.role = Role::expert_scales,
     .name = "router.per_expert_scale",
     .whole = true,
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return Extent{.rows = l.experts.expert_scales ? l.experts.count : 0};
         },
     .in_layer = {.vector = &LayerWeights::expert_scales},
     .draw = {.mean = 1.0, .deviation = 0.2}},
    {.role = Role::latent_in,
     .stored = "ffn_latent_down",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.experts.latent_width); },
     .in_layer = {.matrix = &LayerWeights::latent_in}},
    {.role = Role::latent_out,
     .stored = "ffn_latent_up",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return to_stream(m, l.experts.latent_width); },
     .in_layer = {.matrix = &LayerWeights::latent_out}},
};

}  // namespace

constinit const Block kExperts{[](const LayerPlan& l) { return bool{l.experts}; }, kTensors};

}  // namespace tenon
