// Arcee's AFM and Jais 2: Llama with a plain MLP activated by a squared ReLU; Jais 2 has layer
// norms and biases besides.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace arcee_family {

void read_layers(const JsonFields& config, const Shape& shape, LayerPlan layer, bool biases,
                 ModelPlan& plan) {
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", biases);
  layer.mlp.gated = false;
  layer.mlp.bias = config.flag("mlp_bias", biases);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "relu2");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void read_arcee(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config,
      {.hidden = 2560, .intermediate = 18432, .context_tokens = 4096, .bos = 128000, .eos = 128001},
      plan);
  const float eps = read_eps(config, "rms_norm_eps", 1e-5);
  read_layers(config, shape, llama_layer(shape, eps), false, plan);
}

void read_jais2(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 150272,
                                  .hidden = 3328,
                                  .intermediate = 26624,
                                  .heads = 26,
                                  .context_tokens = 8192,
                                  .bos = 0,
                                  .eos = 150024},
                                 plan);
  const float eps = read_eps(config, "layer_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  layer.mlp_norm = layer.attention_norm;
  read_layers(config, shape, layer, true, plan);
}

}  // namespace arcee_family

const Family kArcee{.model_type = "arcee",
                    .class_stem = "Arcee",
                    .architecture = "arcee",
                    .read = arcee_family::read_arcee,
                    .gguf_pairs_rows = true};
const Family kJais2{.model_type = "jais2",
                    .class_stem = "Jais2",
                    .architecture = "jais2",
                    .read = arcee_family::read_jais2,
                    .gguf_eps_key = "layer_norm_eps"};

}  // namespace tenon
