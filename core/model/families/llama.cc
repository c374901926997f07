// Llama 1 to 3 and the many models in its shape.
#include "core/model/families/families.h"
#include "core/model/families/reading.h"

namespace tenon {
namespace {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace

const Family kLlama{.model_type = "llama",
                    .class_stem = "Llama",
                    .architecture = "llama",
                    .read = read,
                    .gguf_pairs_rows = true,
                    .gguf_windows = GgufWindows::by_family};

}  // namespace tenon
