#include "core/model/families/reading/delta_latent.h"

#include <algorithm>
#include <string>

#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

void experts_of(const GgufFields& fields, ordered_json& config) {
  config["first_k_dense_replace"] = fields.count(".leading_dense_block_count", 0, 0, kMaxLayers);
  if (fields.count(".expert_count", 0, 0, kMaxWidth) == 0) {
    config["first_k_dense_replace"] = config["num_hidden_layers"];
    return;
  }
  config["num_shared_experts"] = fields.count(".expert_shared_count", 0, 0, kMaxWidth);
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .scale = "routed_scaling_factor",
                     .groups = "n_group",
                     .groups_chosen = "topk_group",
                     .gating = kGgufSigmoid},
                    config);
}

}  // namespace

void finish_element_delta(const JsonFields& config, float eps, RecurrentPlan& delta) {
  if (uint64_t{delta.heads} * delta.state * std::max(delta.state, 4u) > kMaxWidth) {
    config.faults().invalid(std::to_string(delta.heads) + " heads of " +
                            std::to_string(delta.state) + " are too wide; at most " +
                            std::to_string(kMaxWidth) + " numbers together");
    delta.heads = delta.groups = delta.state = delta.head_dim = 1;
  }
  delta.decays = delta.state;
  delta.inputs_apart = delta.sigmoid_gate = true;
  delta.gate_norm = {.kind = NormKind::rms, .eps = eps};
}

void delta_latent_from_gguf(const GgufFields& fields, ordered_json& config) {
  const uint32_t rope = fields.need_count(".rope.dimension_count", 1, kMaxWidth);
  const uint32_t k = fields.need_count(".attention.key_length_mla", 1, kMaxWidth);
  const uint32_t q_rank = fields.count(".attention.q_lora_rank", 0, 0, kMaxWidth);
  config["kv_lora_rank"] = fields.need_count(".attention.kv_lora_rank", 1, kMaxWidth);
  config["v_head_dim"] = fields.need_count(".attention.value_length_mla", 1, kMaxWidth);
  if (q_rank > 0) config["q_lora_rank"] = q_rank;
  if (k <= rope) {
    return fields.faults().invalid(fields.name(".attention.key_length_mla") + " is " +
                                   std::to_string(k) + "; expected more than " +
                                   fields.name(".rope.dimension_count"));
  }
  config["qk_nope_head_dim"] = k - rope;
  config["qk_rope_head_dim"] = rope;
  config["linear_num_heads"] = config["num_attention_heads"];
  config["linear_head_dim"] = fields.need_count(".kda.head_dim", 1, kMaxWidth);
  config["linear_conv_kernel_dim"] = fields.need_count(".ssm.conv_kernel", 1, kMaxConvolution);
  config["layer_types"] = ordered_json::array();
  config["attention_bias"] = false;
  for (uint32_t i = 0; i < config["num_hidden_layers"].get<uint32_t>(); ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const bool recurs = fields.has_tensor(layer + "ssm_conv1d_q.weight");
    config["layer_types"].push_back(recurs ? "linear_attention" : "full_attention");
    if (fields.has_tensor(layer + "attn_kv_a_mqa.bias")) config["attention_bias"] = true;
  }
  experts_of(fields, config);
}

void delta_latent_to_gguf(const ModelPlan& plan, const std::string& architecture,
                          GgufMetadata& out) {
  const auto attends = std::ranges::find_if(plan.layers, &LayerPlan::attends);
  const RecurrentPlan* const delta = first_recurrence(plan);
  if (attends != plan.layers.end()) {
    const LatentAttentionPlan& latent = attends->latent;
    if (latent.q_rank > 0) out.add_count(architecture + ".attention.q_lora_rank", latent.q_rank);
    out.add_count(architecture + ".attention.kv_lora_rank", latent.kv_rank);
    out.add_count(architecture + ".attention.key_length_mla", latent.q_dim());
    out.add_count(architecture + ".attention.value_length_mla", latent.v_dim);
    // Where something turns, the rotary settings say it.
    if (plan.ropes.empty()) {
      out.add_count(architecture + ".rope.dimension_count", latent.rope_dim);
    }
  }
  if (delta != nullptr) {
    out.add_count(architecture + ".kda.head_dim", delta->head_dim);
    out.add_count(architecture + ".ssm.conv_kernel", delta->width);
  }
  router_to_gguf(plan, architecture, out);
}

}  // namespace tenon
