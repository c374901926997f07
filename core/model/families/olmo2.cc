// OLMo 2: no norms in front of attention and MLP, but behind them; q and k are normed as a whole.
#include "core/model/families/families.h"
#include "core/model/families/reading.h"

namespace tenon {
namespace olmo2_family {

constexpr TensorName kNames[] = {
    {Role::attention_norm, ""},
    {Role::mlp_norm, ""},
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.vocabulary = 50304, .eos = 50279}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  std::swap(layer.attention_norm, layer.attention_post_norm);
  std::swap(layer.mlp_norm, layer.mlp_post_norm);
  plan.final_norm = layer.attention.qk_norm = layer.attention_post_norm;
  layer.attention.qk_norm_extent = QkNormExtent::whole;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace olmo2_family

const Family kOlmo2{.model_type = "olmo2",
                    .class_stem = "Olmo2",
                    .architecture = "olmo2",
                    .read = olmo2_family::read,
                    .tensors = {.names = olmo2_family::kNames}};

}  // namespace tenon
