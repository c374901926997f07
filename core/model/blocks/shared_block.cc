#include "core/model/blocks/shared_block.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

// Columns of what the block reads: the stream, and what entered the first layer.
Extent from_joined(const ModelPlan& m, uint64_t rows) {
  return {.rows = rows, .columns = 2 * uint64_t{m.hidden}, .columns_axis = Axis::other};
}

Extent of_rank(uint64_t rank, uint64_t rows) {
  return {.rows = rank == 0 ? 0 : rows, .columns = rank, .columns_axis = Axis::other};
}

Extent qkv_low(const ModelPlan& m, const LayerPlan& l) {
  return from_joined(m, l.shared.qkv_rank);
}

constexpr Role kGateAndUpHigh[] = {Role::own_gate_high, Role::own_up_high};

constexpr BlockTensor kTensors[] = {
    {.role = Role::block_norm,
     .stored = "block_norm",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return of_norm(l.shared.borrows() ? NormPlan() : l.shared.norm, 2 * uint64_t{m.hidden});
         },
     .norm = [](const ModelPlan&, const LayerPlan& l) -> const NormPlan& { return l.shared.norm; },
     .in_layer = {.vector = &LayerWeights::block_norm}},
    {.role = Role::own_q_low,
     .stored = "attn_q_low",
     .extent = qkv_low,
     .in_layer = {.matrix = &LayerWeights::own_q_low}},
    {.role = Role::own_q_high,
     .stored = "attn_q_high",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_rank(l.shared.qkv_rank, l.attention.q_width()); },
     .in_layer = {.matrix = &LayerWeights::own_q_high}},
    {.role = Role::own_k_low,
     .stored = "attn_k_low",
     .extent = qkv_low,
     .in_layer = {.matrix = &LayerWeights::own_k_low}},
    {.role = Role::own_k_high,
     .stored = "attn_k_high",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_rank(l.shared.qkv_rank, l.attention.kv_width());
         },
     .in_layer = {.matrix = &LayerWeights::own_k_high}},
    {.role = Role::own_v_low,
     .stored = "attn_v_low",
     .extent = qkv_low,
     .in_layer = {.matrix = &LayerWeights::own_v_low}},
    {.role = Role::own_v_high,
     .stored = "attn_v_high",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_rank(l.shared.qkv_rank, l.attention.v_width()); },
     .in_layer = {.matrix = &LayerWeights::own_v_high}},
    {.role = Role::own_mlp_low,
     .stored = "ffn_low",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.shared.mlp_rank); },
     .in_layer = {.matrix = &LayerWeights::own_mlp_low}},
    {.role = Role::own_mlp_high,
     .stored = "ffn_gate_up_high",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return of_rank(l.shared.mlp_rank, 2 * uint64_t{l.mlp.width});
         },
     .parts = kGateAndUpHigh},
    {.role = Role::own_gate_high,
     .stored = "ffn_gate_high",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_rank(l.shared.mlp_rank, l.mlp.width); },
     .in_layer = {.matrix = &LayerWeights::own_gate_high}},
    {.role = Role::own_up_high,
     .stored = "ffn_up_high",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_rank(l.shared.mlp_rank, l.mlp.width); },
     .in_layer = {.matrix = &LayerWeights::own_up_high}},
    {.role = Role::block_link,
     .stored = "block_link",
     .extent = [](const ModelPlan& m, const LayerPlan&) { return from_stream(m, m.hidden); },
     .in_layer = {.matrix = &LayerWeights::block_link}},
};

}  // namespace

constinit const Block kSharedBlock{[](const LayerPlan& l) { return bool{l.shared}; }, kTensors};

}  // namespace tenon
