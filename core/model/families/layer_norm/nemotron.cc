// Nemotron and Minitron: layer norms whose weights are stored less one, plain MLPs with a squared
// ReLU, half of each head turns.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace nemotron_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 256000,
                                  .hidden = 6144,
                                  .intermediate = 24576,
                                  .heads = 48,
                                  .context_tokens = 4096,
                                  .bos = 2,
                                  .eos = 3},
                                 plan);
  const float eps = read_eps(config, "norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = {.kind = NormKind::layer, .eps = eps, .bias = true, .plus_one = true};
  layer.mlp_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.gated = false;
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "relu2");
  plan.ropes = {read_rope(config, {.partial = PartialRotation::by_key, .partial_factor = 0.5},
                          shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
}

}  // namespace nemotron_family

const Family kNemotron{.model_type = "nemotron",
                       .class_stem = "Nemotron",
                       .architecture = "nemotron",
                       .read = nemotron_family::read,
                       .gguf_adds_one = true,
                       .gguf_partial_rotation = true,
                       .gguf_eps_key = "norm_eps",
                       .from_gguf = nemotron_family::from_gguf};

}  // namespace tenon
