// GLM-4: Llama with gate and up in one matrix, half of each head that turns, neighbours together,
// and biases of q, k and v. Those of 2025 (glm4) have norms after attention and MLP besides.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace glm_family {

constexpr TensorName kGlmNames[] = {
    {Role::gate, ""},
    {Role::up, ""},
    {Role::gate_up, "mlp.gate_up_proj", "ffn_up"},
};
constexpr TensorName kGlm4Names[] = {
    {Role::gate, ""},
    {Role::up, ""},
    {Role::gate_up, "mlp.gate_up_proj", "ffn_up"},
    {Role::attention_post_norm, "post_self_attn_layernorm"},
    {Role::mlp_post_norm, "post_mlp_layernorm"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 151552,
                                  .intermediate = 13696,
                                  .layers = 40,
                                  .kv_heads = 2,
                                  .head_dim = head_dim_unless_null(config, 128),
                                  .context_tokens = 131072},
                                 plan);
  read_default_ends(config, {151329, 151336, 151338}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1.5625e-7));
  layer.attention.qkv_bias = config.flag("attention_bias", true);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {
      read_rope(config, {.partial = PartialRotation::by_key, .partial_factor = 0.5, .pairs = true},
                shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void read_glm4(const JsonFields& config, ModelPlan& plan) {
  read(config, plan);
  for (LayerPlan& layer : plan.layers) {
    layer.attention_post_norm = layer.mlp_post_norm = layer.attention_norm;
  }
}

void from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
}

}  // namespace glm_family

const Family kGlm{.model_type = "glm",
                  .class_stem = "Glm",
                  .architecture = "chatglm",
                  .read = glm_family::read,
                  .tensors = {.names = glm_family::kGlmNames},
                  .gguf_partial_rotation = true,
                  .from_gguf = glm_family::from_gguf};
const Family kGlm4{.model_type = "glm4",
                   .class_stem = "Glm4",
                   .architecture = "glm4",
                   .read = glm_family::read_glm4,
                   .tensors = {.names = glm_family::kGlm4Names},
                   .gguf_partial_rotation = true,
                   .from_gguf = glm_family::from_gguf};

}  // namespace tenon
