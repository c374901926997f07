// StableLM 2 and 3B: layer norms, a quarter of each head turns, halves may run in parallel.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace stablelm_family {

constexpr TensorName kNames[] = {
    {Role::q_norm, "self_attn.q_layernorm"},
    {Role::k_norm, "self_attn.k_layernorm"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 50304,
                                  .hidden = 2560,
                                  .intermediate = 6912,
                                  .kv_heads = 32,
                                  .context_tokens = 4096,
                                  .bos = 0,
                                  .eos = 0},
                                 plan, {.head_dim = nullptr});
  const float eps = read_eps(config, "layer_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = layer.mlp_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = config.flag("use_qkv_bias", false);
  if (config.flag("qk_layernorm", false)) {
    layer.attention.qk_norm = {.kind = NormKind::layer, .eps = eps};
    layer.attention.qk_norm_extent = QkNormExtent::own_head;
  }
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.parallel = config.flag("use_parallel_residual", false);
  if (layer.parallel) layer.mlp_norm = {};
  plan.ropes = {read_rope(
      config, {.partial = PartialRotation::by_key, .partial_factor = 0.25, .odd_parts = false},
      shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["use_qkv_bias"] = fields.has_tensor("blk.0.attn_q.bias");
  config["qk_layernorm"] = fields.has_tensor("blk.0.attn_q_norm.weight");
  // The key says the opposite in some files; whether the second norm is there decides.
  (void)fields.flag(".use_parallel_residual", true);
  config["use_parallel_residual"] = !fields.has_tensor("blk.0.ffn_norm.weight");
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
  config.erase("head_dim");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  out.add_flag(architecture + ".use_parallel_residual", plan.layers.front().parallel);
}

}  // namespace stablelm_family

const Family kStableLm{.model_type = "stablelm",
                       .class_stem = "StableLm",
                       .architecture = "stablelm",
                       .read = stablelm_family::read,
                       .tensors = {.names = stablelm_family::kNames},
                       .gguf_partial_rotation = true,
                       .gguf_eps_key = "layer_norm_eps",
                       .from_gguf = stablelm_family::from_gguf,
                       .to_gguf = stablelm_family::to_gguf};

}  // namespace tenon
