// AFMoE (Arcee's Trinity): norms before and after both halves, a gate after attention, windows in
// whose layers alone heads turn, and DeepSeek-V3's router without groups after some dense layers.
#include <cmath>

#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace afmoe_family {

constexpr TensorName kNames[] = {
    {Role::attention_post_norm, "post_attention_layernorm", "post_attention_norm"},
    {Role::mlp_norm, "pre_mlp_layernorm"},
    {Role::mlp_post_norm, "post_mlp_layernorm", "post_ffw_norm"},
    {Role::output_gate, "self_attn.gate_proj", "attn_gate"},
    {Role::router, "mlp.router.gate"},
    {Role::router_correction, "mlp.expert_bias", "exp_probs_b.bias", true},
};

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention_post_norm = layer.mlp_post_norm = layer.attention_norm;
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.output_gate = true;
  layer.attention.gate_bias = false;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  return layer;
}

// transformers overlooks how published files say that factors are sigmoids and add up to one; other
// programs do not.
ExpertsPlan read_router(const JsonFields& config) {
  ExpertsPlan experts = read_experts(
      config, {.count = 64, .chosen = 6, .width = 1408, .width_key = "moe_intermediate_size"});
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = experts.normalised = true;
  experts.scale = static_cast<float>(config.number("route_scale", 1.0));
  read_shared_experts(config, "num_shared_experts", 2, experts);
  expect_value(config, "score_func", "sigmoid");
  if (!config.flag("route_norm", true)) {
    config.faults().unsupported(
        "'route_norm' is false; this family runs with factors of experts that add up to one alone");
  }
  return experts;
}

// Layers without a window do not turn.
void read_windows(const JsonFields& config, ModelPlan& plan) {
  const char* key = "sliding_window";
  const uint32_t window = config.count(key, 1024, 1, kMaxWidth);
  const uint32_t period = config.count("global_attn_every_n_layers", 4, 1, kMaxLayers);
  const bool listed = config.has("layer_types");
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  for (size_t i = 0; i < plan.layers.size() && !listed; ++i) {
    sliding.push_back((i + 1) % period != 0);
  }
  set_windows(sliding, window, plan);
  for (LayerPlan& layer : plan.layers) {
    if (layer.attention.window_tokens == 0) layer.attention.rope = -1;
    if (layer.attention.window_tokens == 0 || !config.is_null(key)) continue;
    return config.faults().invalid(config.name(key) + " is null; some layers have a window");
  }
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 200192,
                                  .hidden = 2048,
                                  .intermediate = 6144,
                                  .heads = 16,
                                  .head_dim = 128,
                                  .context_tokens = 16384},
                                 plan);
  const LayerPlan layer = read_layer(config, shape, plan);
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  if (config.flag("mup_enabled", false)) {
    plan.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(shape.hidden)));
  }
  const uint32_t dense = config.count("num_dense_layers", 1, 0, kMaxLayers);
  std::vector<bool> sparse(shape.layers, false);
  for (size_t i = dense; i < sparse.size(); ++i) sparse[i] = true;
  set_checked_experts(config, sparse, read_router(config), plan);
  read_windows(config, plan);
}

// Programs that read such files scale embeddings whatever the file says.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .normalised = "route_norm",
                     .normalised_by_default = true,
                     .scale = "route_scale",
                     .shared_count = "num_shared_experts",
                     .dense = "num_dense_layers",
                     .gating = kGgufSigmoid},
                    config);
  config["mup_enabled"] = true;
  windows_from_gguf(fields, config);
  if (config["sliding_window"].is_null()) {
    config["layer_types"] =
        std::vector<std::string>(config["num_hidden_layers"].get<size_t>(), "full_attention");
  }
}

}  // namespace afmoe_family

const Family kAfmoe{.model_type = "afmoe",
                    .class_stem = "Afmoe",
                    .architecture = "afmoe",
                    .read = afmoe_family::read,
                    .tensors = {.names = afmoe_family::kNames},
                    .gguf_windows = GgufWindows::by_family,
                    .from_gguf = afmoe_family::from_gguf,
                    .to_gguf = router_to_gguf};

}  // namespace tenon
