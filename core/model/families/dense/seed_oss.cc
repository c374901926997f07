// Seed-OSS: Llama with biases of q, k and v.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace seed_oss_family {

constexpr TensorName kNames[] = {
    {Role::mlp_norm, "post_attention_layernorm", "post_attention_norm"}};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 155136,
                                  .intermediate = 27648,
                                  .layers = 64,
                                  .heads = 80,
                                  .kv_heads = 8,
                                  .head_dim = head_dim_unless_null(config, 128),
                                  .context_tokens = 524288,
                                  .bos = 0,
                                  .eos = 2},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qkv_bias = config.flag("attention_bias", true);
  layer.attention.output_bias = config.flag("attention_out_bias", false);
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace seed_oss_family

const Family kSeedOss{.model_type = "seed_oss",
                      .class_stem = "SeedOss",
                      .architecture = "seed_oss",
                      .read = seed_oss_family::read,
                      .tensors = {.names = seed_oss_family::kNames}};

}  // namespace tenon
