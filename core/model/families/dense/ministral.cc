// Ministral 8B: Mistral whose layers have the window by their kind.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace ministral_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config, {.intermediate = 14336, .kv_heads = 8, .context_tokens = 131072, .bos = 1, .eos = 2},
      plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  const char* key = "sliding_window";
  const uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  std::vector<bool> sliding = read_sliding_layers(config, shape.layers);
  sliding.resize(shape.layers, sliding.empty());
  set_windows(sliding, window, plan);
}

}  // namespace ministral_family

const Family kMinistral{.model_type = "ministral",
                        .class_stem = "Ministral",
                        .architecture = "",
                        .read = ministral_family::read};

}  // namespace tenon
