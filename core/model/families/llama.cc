// Llama 1 to 3 and the many models in its shape.
#include "core/model/families/families.h"
#include "core/model/families/reading.h"

namespace tenon {
namespace llama_family {

// Cross-layer attention (arXiv:2405.12981), by the keys of published models that have it: the first
// of every `cla_share_factor` layers has K and V, which the others read.
void share_kv(const JsonFields& config, ModelPlan& plan) {
  const uint32_t factor = config.count("cla_share_factor", 1, 1, kMaxLayers);
  if (!config.flag("use_cla", false)) return;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const size_t behind = i % factor;
    if (behind > 0) plan.layers[i].attention.kv_from_layer = static_cast<int32_t>(i - behind);
  }
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  share_kv(config, plan);
}

}  // namespace llama_family

const Family kLlama{.model_type = "llama",
                    .class_stem = "Llama",
                    .architecture = "llama",
                    .read = llama_family::read,
                    .gguf_pairs_rows = true,
                    .gguf_windows = GgufWindows::by_family};

}  // namespace tenon
