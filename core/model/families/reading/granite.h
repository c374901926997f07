// What Granite's generations have in common.
#pragma once

#include <nlohmann/json.hpp>

#include "core/model/families/reading/config_keys.h"

namespace tenon {

// Llama's layer with the multipliers on scores and residuals; sets what the plan has of all layers.
LayerPlan read_granite_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan,
                             double usual_eps = 1e-6);

// Experts of `width` beside an MLP that sees every token (`shared_width`, 0: none).
ExpertsPlan read_granite_experts(const JsonFields& config, uint32_t width, uint32_t shared_width);
// Where folders and GGUF files have them, and no MLP of another name.
inline constexpr TensorName kGraniteExpertNames[] = {
    {Role::router, "block_sparse_moe.router.layer"},
    {Role::expert_gate, "block_sparse_moe.*.gate"},
    {Role::expert_up, "block_sparse_moe.*.up"},
    {Role::expert_down, "block_sparse_moe.*.down"},
    {Role::gate_up, ""},
    {Role::down, ""},
    {Role::shared_gate_up, "shared_mlp.input_linear"},
    {Role::shared_down, "shared_mlp.output_linear"},
};
// transformers 5 names them otherwise in memory, and on request in files.
inline constexpr FamilyTensors kGraniteExpertTensors{.gguf_parts_gate_up = true,
                                                     .experts = ExpertLayout::stacked,
                                                     .stacked_in = "input_linear.weight",
                                                     .stacked_out = "output_linear.weight",
                                                     .part = "router.layer",
                                                     .newer_part = "router",
                                                     .newer_stacked_in = "experts.gate_up_proj",
                                                     .newer_stacked_out = "experts.down_proj"};

// The multipliers on embeddings, scores, residuals and logits in GGUF files.
void multipliers_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config);
void multipliers_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);

}  // namespace tenon
