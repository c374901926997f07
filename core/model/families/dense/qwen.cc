// Qwen 2 and 3: Llama with biases of q, k and v, or with norms of q and k; upper layers may have a
// window.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace qwen_family {

void read_windows(const JsonFields& config, ModelPlan& plan) {
  const char* key = "sliding_window";
  uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  if (!config.flag("use_sliding_window", false)) window = 0;
  const uint32_t first = config.count("max_window_layers", 28, 0, kMaxWidth);
  std::vector<bool> sliding(plan.layers.size());
  for (size_t layer = first; layer < sliding.size(); ++layer) sliding[layer] = true;
  if (config.has("layer_types")) {
    sliding = read_sliding_layers(config, plan.layers.size());
    expect_window(config, sliding, window);
  }
  set_windows(sliding, window, plan);
}

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  return layer;
}

constexpr ShapeDefaults kQwen2Shape{
    .vocabulary = 151936, .intermediate = 22016, .kv_heads = 32, .context_tokens = 32768};
constexpr ShapeDefaults kQwen3Shape{.vocabulary = 151936,
                                    .intermediate = 22016,
                                    .kv_heads = 32,
                                    .head_dim = 128,
                                    .context_tokens = 32768};

void read_qwen2(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kQwen2Shape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  layer.attention.qkv_bias = true;
  plan.layers.assign(shape.layers, layer);
  read_windows(config, plan);
}

void read_qwen3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kQwen3Shape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  plan.layers.assign(shape.layers, layer);
  read_windows(config, plan);
}

}  // namespace qwen_family

const Family kQwen2{.model_type = "qwen2",
                    .class_stem = "Qwen2",
                    .architecture = "qwen2",
                    .read = qwen_family::read_qwen2};
const Family kQwen3{.model_type = "qwen3",
                    .class_stem = "Qwen3",
                    .architecture = "qwen3",
                    .read = qwen_family::read_qwen3};

}  // namespace tenon
