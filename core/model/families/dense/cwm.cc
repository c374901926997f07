// Code World Model: Llama with a window in three of four layers.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace cwm_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 128256,
                                  .hidden = 6144,
                                  .intermediate = 21504,
                                  .layers = 64,
                                  .heads = 48,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .context_tokens = 131072,
                                  .bos = 128000},
                                 plan);
  read_default_ends(config, {128001, 128008, 128009}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope_or(
      config, R"({"rope_type":"llama3","rope_theta":1000000.0,"factor":16.0,"low_freq_factor":1.0,
                  "high_freq_factor":4.0,"original_max_position_embeddings":8192})",
      {.theta = 1000000.0}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  std::vector<bool> sliding = read_sliding_layers(config, shape.layers);
  for (size_t i = sliding.size(); i < shape.layers; ++i) sliding.push_back(i % 4 != 0);
  set_windows(sliding, config.count("sliding_window", 8192, 1, kMaxWidth), plan);
}

// A file without a scaling has none.
void from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  if (config["rope_scaling"].is_null()) config["rope_scaling"] = {{"rope_type", "default"}};
}

}  // namespace cwm_family

const Family kCwm{.model_type = "cwm",
                  .class_stem = "Cwm",
                  .architecture = "",
                  .read = cwm_family::read,
                  .from_gguf = cwm_family::from_gguf};

}  // namespace tenon
