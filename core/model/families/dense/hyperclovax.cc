// HyperCLOVA X: Granite with norms after attention and MLP too, and logits that are multiplied, not
// divided.
#include "core/model/families/families.h"
#include "core/model/families/reading/granite.h"

namespace tenon {
namespace hyperclovax_family {

constexpr TensorName kNames[] = {
    {Role::attention_post_norm, "post_norm1"},
    {Role::mlp_post_norm, "post_norm2"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = read_granite_layer(config, shape, plan);
  if (!config.has("attention_multiplier")) {
    layer.attention.scale = llama_layer(shape, 1e-6f).attention.scale;
  }
  plan.logit_scale = read_multiplier(config, "logits_scaling");
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  if (config.flag("use_post_norm", true)) {
    layer.attention_post_norm = layer.mlp_post_norm = layer.attention_norm;
  }
  plan.layers.assign(shape.layers, layer);
}

}  // namespace hyperclovax_family

const Family kHyperClovaX{.model_type = "hyperclovax",
                          .class_stem = "HyperCLOVAX",
                          .architecture = "",
                          .read = hyperclovax_family::read,
                          .tensors = {.names = hyperclovax_family::kNames}};

}  // namespace tenon
