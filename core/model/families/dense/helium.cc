// Helium: Llama with neighbours that turn together.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace helium_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 48000,
                                  .hidden = 2560,
                                  .intermediate = 7040,
                                  .layers = 24,
                                  .heads = 20,
                                  .kv_heads = 20,
                                  .head_dim = head_dim_unless_null(config, 128),
                                  .context_tokens = 4096,
                                  .bos = 1,
                                  .eos = 2},
                                 plan);
  if (shape.heads * shape.head_dim != shape.hidden) {
    config.faults().invalid(
        std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim) +
        " are not 'hidden_size', " + std::to_string(shape.hidden) +
        ", which they must be in this family: the matrix after attention is square");
  }
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-8));
  layer.attention.qkv_bias = config.flag("attention_bias", false);
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {
      read_rope(config, {.theta = 100000.0, .pairs = true}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace helium_family

const Family kHelium{.model_type = "helium",
                     .class_stem = "Helium",
                     .architecture = "",
                     .read = helium_family::read};

}  // namespace tenon
