// Mistral 7B and its successors: Llama with a window in every layer, or in none.
#include "core/model/families/families.h"
#include "core/model/families/reading.h"

namespace tenon {
namespace mistral_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config, {.intermediate = 14336, .kv_heads = 8, .context_tokens = 131072, .bos = 1, .eos = 2},
      plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  const char* key = "sliding_window";
  layer.attention.window_tokens = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace mistral_family

const Family kMistral{.model_type = "mistral",
                      .class_stem = "Mistral",
                      .architecture = "llama",
                      .read = mistral_family::read,
                      .gguf_pairs_rows = true,
                      .gguf_windows = GgufWindows::by_family};

}  // namespace tenon
