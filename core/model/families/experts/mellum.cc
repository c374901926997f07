// Mellum 2: Qwen 3 with experts, whose layers with a window turn by a setting of their own.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace mellum_family {

constexpr ShapeDefaults kShape{.vocabulary = 98304,
                               .hidden = 2304,
                               .intermediate = 7168,
                               .layers = 28,
                               .kv_heads = 4,
                               .head_dim = 128,
                               .context_tokens = 131072};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  plan.layers.assign(shape.layers, layer);
  ExpertsPlan experts = read_experts(
      config, {.count = 64, .chosen = 8, .width = 896, .width_key = "moe_intermediate_size"});
  experts.normalised = config.flag("norm_topk_prob", true);
  set_checked_experts(config, read_mlp_types(config, 0, shape.layers), experts, plan);
  const char* key = "sliding_window";
  const uint32_t window = config.is_null(key) ? 0 : config.count(key, 1024, 1, kMaxWidth);
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  sliding.resize(plan.layers.size(), false);
  set_windows(sliding, window, plan);
  read_kind_ropes(config, {.full = {.theta = 500000.0}, .sliding = {.theta = 10000.0}}, sliding,
                  shape.head_dim, plan);
  for (const RopePlan& rope : plan.ropes) expect_whole_heads(config, rope, shape.head_dim);
}

// Files have one scaling, that of layers without a window, and a base for the others.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .types = "mlp_layer_types"},
                    config);
  nlohmann::ordered_json full = config["rope_scaling"];
  if (!full.is_object()) full = {{"rope_type", "default"}};
  full["rope_theta"] = config["rope_theta"];
  const double local = fields.number(".rope.freq_base_swa", config["rope_theta"], 1e-6, 1e30);
  config["rope_parameters"] = {
      {"full_attention", std::move(full)},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  config.erase("rope_scaling");
  config.erase("rope_theta");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  experts_to_gguf(plan, architecture, out);
  out.add_real(architecture + ".rope.freq_base_swa", static_cast<float>(plan.ropes[1].theta));
}

}  // namespace mellum_family

const Family kMellum{.model_type = "mellum",
                     .class_stem = "Mellum",
                     .architecture = "mellum",
                     .read = mellum_family::read,
                     .from_gguf = mellum_family::from_gguf,
                     .to_gguf = mellum_family::to_gguf};

}  // namespace tenon
