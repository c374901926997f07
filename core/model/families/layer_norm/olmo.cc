// OLMo 1: Llama with layer norms that have no weights, and with q, k and v cut off.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace olmo_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.vocabulary = 50304, .eos = 50279}, plan);
  LayerPlan layer = llama_layer(shape, 1e-5f);
  layer.attention_norm = {.kind = NormKind::layer, .eps = 1e-5f, .weight = false};
  layer.mlp_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  if (config.has("clip_qkv")) layer.attention.clip = read_multiplier(config, "clip_qkv");
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const double clip = fields.number(".attention.clamp_kqv", 0.0, 0.0, 1e30);
  if (clip > 0.0) config["clip_qkv"] = clip;
  // The reference has its epsilon in its code.
  config.erase("rms_norm_eps");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const float clip = plan.layers.front().attention.clip;
  if (clip > 0) out.add_real(architecture + ".attention.clamp_kqv", clip);
}

}  // namespace olmo_family

const Family kOlmo{.model_type = "olmo",
                   .class_stem = "Olmo",
                   .architecture = "olmo",
                   .read = olmo_family::read,
                   .gguf_pairs_rows = true,
                   .from_gguf = olmo_family::from_gguf,
                   .to_gguf = olmo_family::to_gguf};

}  // namespace tenon
