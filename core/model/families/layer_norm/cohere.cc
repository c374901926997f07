// Command-R: one layer norm without a bias for both halves, which run in parallel; neighbours turn
// together; logits are scaled. Command R7B and A (cohere2) turn in layers with a window alone.
#include <algorithm>

#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace cohere_family {

constexpr TensorName kNames[] = {{Role::mlp_norm, ""}};

LayerPlan read_layer(const JsonFields& config, double theta, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 256000,
                                  .hidden = 8192,
                                  .intermediate = 22528,
                                  .layers = 40,
                                  .heads = 64,
                                  .context_tokens = 8192,
                                  .bos = 5,
                                  .eos = 255001,
                                  .tied = true},
                                 plan);
  const float eps = read_eps(config, "layer_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = plan.final_norm = {.kind = NormKind::layer, .eps = eps};
  layer.mlp_norm = {};
  layer.parallel = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.logit_scale = static_cast<float>(config.number("logit_scale", 0.0625));
  plan.ropes = {
      read_rope(config, {.theta = theta, .pairs = true}, shape.head_dim, plan.context_tokens)};
  plan.layers.resize(shape.layers);
  return layer;
}

void read(const JsonFields& config, ModelPlan& plan) {
  LayerPlan layer = read_layer(config, 500000.0, plan);
  if (config.flag("use_qk_norm", false)) {
    layer.attention.qk_norm = layer.attention_norm;
    layer.attention.qk_norm_extent = QkNormExtent::own_head;
  }
  std::ranges::fill(plan.layers, layer);
}

// Without a window nothing turns.
void read_cohere2(const JsonFields& config, ModelPlan& plan) {
  std::ranges::fill(plan.layers, read_layer(config, 10000.0, plan));
  const uint32_t period = config.count("sliding_window_pattern", 4, 1, kMaxLayers);
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  for (size_t i = sliding.size(); i < plan.layers.size(); ++i) {
    sliding.push_back((i + 1) % period != 0);
  }
  const char* key = "sliding_window";
  const uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  set_windows(sliding, window, plan);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].attention.rope = sliding[i] && window != 0 ? 0 : -1;
  }
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["logit_scale"] = fields.number(".logit_scale", 0.0625, 1e-6, 1e6);
  config["use_qk_norm"] = fields.has_tensor("blk.0.attn_q_norm.weight");
}

void cohere2_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["logit_scale"] = fields.number(".logit_scale", 0.0625, 1e-6, 1e6);
  windows_from_gguf(fields, config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  out.add_real(architecture + ".logit_scale", plan.logit_scale);
}

}  // namespace cohere_family

const Family kCohere{.model_type = "cohere",
                     .class_stem = "Cohere",
                     .architecture = "command-r",
                     .read = cohere_family::read,
                     .tensors = {.names = cohere_family::kNames},
                     .gguf_eps_key = "layer_norm_eps",
                     .from_gguf = cohere_family::from_gguf,
                     .to_gguf = cohere_family::to_gguf};
const Family kCohere2{.model_type = "cohere2",
                      .class_stem = "Cohere2",
                      .architecture = "cohere2",
                      .read = cohere_family::read_cohere2,
                      .tensors = {.names = cohere_family::kNames},
                      .gguf_windows = GgufWindows::by_family,
                      .gguf_eps_key = "layer_norm_eps",
                      .from_gguf = cohere_family::cohere2_from_gguf,
                      .to_gguf = cohere_family::to_gguf};

}  // namespace tenon
