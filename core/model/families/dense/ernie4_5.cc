// ERNIE 4.5, the dense ones: Llama with neighbours that turn together, and biases everywhere or
// nowhere.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace ernie4_5_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 103424,
                                  .hidden = 1024,
                                  .intermediate = 3072,
                                  .layers = 18,
                                  .heads = 16,
                                  .kv_heads = 2,
                                  .head_dim = head_dim_unless_null(config, 128),
                                  .context_tokens = 131072,
                                  .bos = 1,
                                  .eos = 2,
                                  .tied = true},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  const bool bias = config.flag("use_bias", false);
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = bias;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {
      read_rope(config, {.theta = 500000.0, .pairs = true}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace ernie4_5_family

const Family kErnie45{.model_type = "ernie4_5",
                      .class_stem = "Ernie4_5",
                      .architecture = "ernie4_5",
                      .read = ernie4_5_family::read};

}  // namespace tenon
