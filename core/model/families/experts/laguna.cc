// Laguna: heads by layer, a gate after attention by softplus, norms of q and k, a rotary setting
// for each kind of layers, and DeepSeek-V3's router without groups, whose scores may have a cap.
#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace laguna_family {

constexpr TensorName kNames[] = {
    {Role::output_gate, "self_attn.g_proj", "attn_gate"},
    {Role::router_correction, "mlp.experts.e_score_correction_bias", "exp_probs_b.bias", true},
    {Role::shared_gate, "mlp.shared_expert.gate_proj"},
    {Role::shared_up, "mlp.shared_expert.up_proj"},
    {Role::shared_down, "mlp.shared_expert.down_proj"},
};
constexpr std::pair<std::string_view, std::string_view> kMoreParts[] = {
    {"mlp.shared_expert.", "mlp.shared_experts."},
};
constexpr const char* kPerHead = "per-head";
constexpr const char* kPerElement = "per-element";

// transformers takes whatever is not true or "per-head" for "per-element". A list by layer, which
// it overlooks, must agree.
bool read_gate_by_head(const JsonFields& config) {
  const nlohmann::json* gating = config.find("gating");
  const bool by_head =
      gating == nullptr ? !config.is_null("gating") : *gating == true || *gating == kPerHead;
  const nlohmann::json* by_layer = config.find("gating_types");
  if (by_layer == nullptr) return by_head;
  for (const nlohmann::json& own : *by_layer) {
    const bool own_by_head = own == kPerHead || own == "per_head";
    if (own_by_head == by_head && (own_by_head || own == kPerElement || own == "per_element")) {
      continue;
    }
    config.faults().unsupported("'gating_types' has " + describe(own) + "; 'gating' makes it " +
                                in_quotes(by_head ? kPerHead : kPerElement) + " in all layers");
    break;
  }
  return by_head;
}

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.output_gate = layer.attention.gate_softplus = true;
  layer.attention.gate_by_head = read_gate_by_head(config);
  layer.attention.gate_bias = false;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  return layer;
}

ExpertsPlan read_router(const JsonFields& config) {
  ExpertsPlan experts = read_experts(
      config, {.count = 256, .chosen = 8, .width = 512, .width_key = "moe_intermediate_size"});
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = experts.normalised = true;
  experts.sum_more = 0.0f;
  experts.scale = static_cast<float>(config.number("moe_routed_scaling_factor", 1.0));
  experts.shared_width = config.count("shared_expert_intermediate_size", 512, 0, kMaxWidth);
  const char* cap = "moe_router_logit_softcapping";
  if (config.number(cap, 0.0) > 0.0) {
    experts.score_cap = static_cast<float>(bounded_number(config, cap, 0.0));
  }
  if (config.flag("moe_apply_router_weight_on_input", false)) {
    config.faults().unsupported(
        "'moe_apply_router_weight_on_input' is true; this family runs with factors on what "
        "experts make alone");
  }
  return experts;
}

void read_heads(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  const std::vector<uint32_t> heads =
      read_layer_counts(config, "num_attention_heads_per_layer", plan.layers.size());
  for (size_t i = 0; i < heads.size(); ++i) {
    SelfAttentionPlan& attention = plan.layers[i].attention;
    attention.heads = heads[i];
    if (heads[i] % shape.kv_heads == 0 && uint64_t{heads[i]} * shape.head_dim <= kMaxWidth) {
      continue;
    }
    config.faults().invalid("'num_attention_heads_per_layer' gives layer " + std::to_string(i) +
                            " " + std::to_string(heads[i]) + " heads of " +
                            std::to_string(shape.head_dim) + " on " +
                            std::to_string(shape.kv_heads) + " KV heads; expected a multiple");
    return;
  }
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 100352,
                                  .hidden = 2048,
                                  .intermediate = 8192,
                                  .layers = 40,
                                  .heads = 48,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .context_tokens = 131072},
                                 plan);
  plan.layers.assign(shape.layers, read_layer(config, shape, plan));
  read_heads(config, shape, plan);
  std::vector<bool> sliding = read_sliding_layers(config, shape.layers);
  sliding.resize(shape.layers, false);
  set_windows(sliding, config.count("sliding_window", 512, 1, kMaxWidth), plan);
  read_kind_ropes(
      config,
      {.full = {.theta = 500000.0, .partial = PartialRotation::by_key, .partial_factor = 0.5},
       .sliding = {}},
      sliding, shape.head_dim, plan);
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), read_router(config), plan);
}

// Where a file has a window but no pattern, every fourth layer from the first has none.
void windows_by_default(const GgufFields& fields, nlohmann::ordered_json& config) {
  windows_from_gguf(fields, config);
  if (config.contains("layer_types")) return;
  const bool any = !config["sliding_window"].is_null();
  for (uint32_t i = 0; i < config["num_hidden_layers"].get<uint32_t>(); ++i) {
    config["layer_types"].push_back(any && i % 4 != 0 ? "sliding_attention" : "full_attention");
  }
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .shared_width = "shared_expert_intermediate_size",
                     .scale = "moe_routed_scaling_factor",
                     .types = "mlp_layer_types",
                     .gating = kGgufSigmoid},
                    config);
  const std::vector<double> heads =
      fields.numbers(".attention.head_count", config["num_hidden_layers"].get<size_t>());
  for (const double own : heads) {
    config["num_attention_heads_per_layer"].push_back(static_cast<uint32_t>(std::max(own, 0.0)));
  }
  const uint64_t gates = fields.tensor_rows("blk.0.attn_gate.weight");
  const bool by_head = !heads.empty() && static_cast<double>(gates) == heads.front();
  config["gating"] = by_head ? kPerHead : kPerElement;
  windows_by_default(fields, config);
  kind_ropes_from_gguf(fields, config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  router_to_gguf(plan, architecture, out);
  kind_ropes_to_gguf(plan, architecture, out);
}

}  // namespace laguna_family

const Family kLaguna{.model_type = "laguna",
                     .class_stem = "Laguna",
                     .architecture = "laguna",
                     .read = laguna_family::read,
                     .tensors = {.names = laguna_family::kNames,
                                 .part = "mlp.experts.e_score_correction_bias",
                                 .newer_part = "mlp.gate.e_score_correction_bias",
                                 .more_parts = laguna_family::kMoreParts},
                     .gguf_layer_heads = true,
                     .gguf_partial_rotation = true,
                     .gguf_windows = GgufWindows::by_family,
                     .gguf_theta = 500000.0,
                     .from_gguf = laguna_family::from_gguf,
                     .to_gguf = laguna_family::to_gguf};

}  // namespace tenon
