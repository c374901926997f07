// SmolLM3: Llama without positions in every fourth layer.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace smollm3_family {

// Layers without rotation, and with a window where the config asks for one, are the same by
// default.
void read_layers(const JsonFields& config, ModelPlan& plan) {
  const size_t layers = plan.layers.size();
  const uint32_t interval = config.count("no_rope_layer_interval", 4, 1, kMaxLayers);
  std::vector<bool> rotates = config.flags("no_rope_layers", layers);
  for (size_t i = rotates.size(); i < layers; ++i) rotates.push_back((i + 1) % interval != 0);
  for (size_t i = 0; i < layers; ++i) plan.layers[i].attention.rope = rotates[i] ? 0 : -1;
  const bool windows = config.flag("use_sliding_window", false);
  const uint32_t window =
      config.has("sliding_window") ? config.count("sliding_window", 1, 1, kMaxWidth) : 0;
  // What stands in layer_types has the window whatever use_sliding_window says.
  std::vector<bool> sliding = read_sliding_layers(config, layers);
  for (size_t i = sliding.size(); i < layers; ++i) sliding.push_back(windows && !rotates[i]);
  set_windows(sliding, window, plan);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 128256,
                                  .hidden = 2048,
                                  .layers = 36,
                                  .heads = 16,
                                  .kv_heads = 4,
                                  .context_tokens = 32768,
                                  .bos = 128000,
                                  .eos = 128001,
                                  .tied = true},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {.theta = 2e6}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  read_layers(config, plan);
}

}  // namespace smollm3_family

const Family kSmolLm3{.model_type = "smollm3",
                      .class_stem = "SmolLM3",
                      .architecture = "smollm3",
                      .read = smollm3_family::read,
                      .gguf_pairs_rows = true};

}  // namespace tenon
