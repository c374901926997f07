// BitNet: Llama with a norm of what attention and the MLP's first half make, and a squared ReLU.
// Weights are what the files have: rounding to three values is a quantisation method's.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace bitnet_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 128256,
                                  .hidden = 2560,
                                  .intermediate = 6912,
                                  .layers = 30,
                                  .heads = 20,
                                  .kv_heads = 5,
                                  .context_tokens = 2048,
                                  .bos = 128000,
                                  .eos = 128001},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention.attended_norm = layer.mlp.inner_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "relu2");
  if (shape.heads * shape.head_dim != shape.hidden) {
    config.faults().unsupported(std::to_string(shape.heads) + " heads of " +
                                std::to_string(shape.head_dim) +
                                " are normed together as one row of 'hidden_size' " +
                                std::to_string(shape.hidden) + "; expected the same width");
  }
  plan.ropes = {read_rope(config, {.theta = 500000.0}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

// The activation has no key in such files.
void from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  config["hidden_act"] = "relu2";
}

}  // namespace bitnet_family

const Family kBitNet{.model_type = "bitnet",
                     .class_stem = "BitNet",
                     .architecture = "bitnet",
                     .read = bitnet_family::read,
                     .gguf_theta = 500000.0,
                     .from_gguf = bitnet_family::from_gguf};

}  // namespace tenon
