// Phi-1 and 2: parallel halves behind one layer norm, a part of each head turns, biases everywhere,
// also at the logits.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace phi_family {

constexpr TensorName kNames[] = {
    {Role::final_norm, "model.final_layernorm"},
    {Role::output, "self_attn.dense"},
    {Role::q_norm, "self_attn.q_layernorm"},
    {Role::k_norm, "self_attn.k_layernorm"},
    {Role::up, "mlp.fc1"},
    {Role::down, "mlp.fc2"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config,
      {.vocabulary = 51200, .hidden = 2048, .intermediate = 8192, .layers = 24, .bos = 1, .eos = 2},
      plan);
  const float eps = read_eps(config, "layer_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  layer.mlp_norm = {};
  layer.parallel = true;
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = true;
  if (config.flag("qk_layernorm", false)) layer.attention.qk_norm = layer.attention_norm;
  layer.mlp.gated = false;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "gelu_new");
  plan.final_norm = layer.attention_norm;
  plan.head_bias = true;
  plan.ropes = {read_rope(
      config, {.partial = PartialRotation::by_key, .partial_factor = 0.5, .odd_parts = false},
      shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["qk_layernorm"] = fields.has_tensor("blk.0.attn_q_norm.weight");
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
}

}  // namespace phi_family

const Family kPhi{.model_type = "phi",
                  .class_stem = "Phi",
                  .architecture = "phi2",
                  .read = phi_family::read,
                  .tensors = {.names = phi_family::kNames},
                  .gguf_partial_rotation = true,
                  .gguf_eps_key = "layer_norm_eps",
                  .from_gguf = phi_family::from_gguf};

}  // namespace tenon
