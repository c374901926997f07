// Qwen 2 and 3 with experts, in all layers or in some; Qwen 2 has a shared one beside them, whose
// result a score of its own weighs.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace qwen_moe_family {

constexpr TensorName kQwen2Names[] = {
    {Role::shared_gate, "mlp.shared_expert.gate_proj"},
    {Role::shared_up, "mlp.shared_expert.up_proj"},
    {Role::shared_down, "mlp.shared_expert.down_proj"},
};

constexpr ShapeDefaults kQwen2Shape{.vocabulary = 151936,
                                    .hidden = 2048,
                                    .intermediate = 5632,
                                    .layers = 24,
                                    .heads = 16,
                                    .kv_heads = 16,
                                    .context_tokens = 32768};
constexpr ShapeDefaults kQwen3Shape{.vocabulary = 151936,
                                    .hidden = 2048,
                                    .intermediate = 6144,
                                    .layers = 24,
                                    .heads = 32,
                                    .kv_heads = 4,
                                    .context_tokens = 32768};

constexpr ShapeDefaults kQwen3VlShape{.vocabulary = 151936,
                                      .hidden = 2048,
                                      .intermediate = 5632,
                                      .layers = 24,
                                      .heads = 16,
                                      .kv_heads = 16,
                                      .context_tokens = 128000};

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan,
                     const RopeDefaults& rope = {}) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, rope, shape.head_dim, plan.context_tokens)};
  return layer;
}

// 0 where there is none. transformers saves a window that is not used as 0.
uint32_t read_window(const JsonFields& config) {
  const char* key = "sliding_window";
  const bool used = config.flag("use_sliding_window", false);
  const uint32_t window =
      config.is_null(key) ? 0 : config.count(key, 4096, used ? 1 : 0, kMaxWidth);
  return used ? window : 0;
}

// Every other layer below max_window_layers, where layer_types does not say which.
void read_qwen2_windows(const JsonFields& config, ModelPlan& plan) {
  const uint32_t window = read_window(config);
  const uint32_t last = config.count("max_window_layers", 28, 0, kMaxWidth);
  std::vector<bool> sliding(plan.layers.size());
  for (size_t i = 0; i < sliding.size(); ++i) sliding[i] = i % 2 == 0 && i < last;
  if (config.has("layer_types")) {
    sliding = read_sliding_layers(config, plan.layers.size());
    expect_window(config, sliding, window);
  }
  set_windows(sliding, window, plan);
}

ExpertsPlan read_qwen_experts(const JsonFields& config, const ExpertDefaults& defaults) {
  ExpertsPlan experts = read_experts(config, defaults);
  experts.normalised = config.flag("norm_topk_prob", false);
  check_experts(config, experts);
  return experts;
}

void read_qwen2(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kQwen2Shape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  layer.attention.qkv_bias = config.flag("qkv_bias", true);
  ExpertsPlan experts = read_qwen_experts(
      config, {.count = 60, .chosen = 4, .width = 1408, .width_key = "moe_intermediate_size"});
  experts.shared_width = config.count("shared_expert_intermediate_size", 5632, 1, kMaxWidth);
  experts.shared_gate = true;
  plan.layers.assign(shape.layers, layer);
  set_experts(read_sparse_layers(config, shape.layers), experts, plan);
  read_qwen2_windows(config, plan);
}

void read_qwen3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kQwen3Shape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.window_tokens = read_window(config);
  // transformers reads it for other models of the name, and overlooks it here.
  (void)config.find("max_window_layers");
  const ExpertsPlan experts = read_qwen_experts(
      config, {.count = 128, .chosen = 8, .width = 768, .width_key = "moe_intermediate_size"});
  plan.layers.assign(shape.layers, layer);
  set_experts(read_sparse_layers(config, shape.layers), experts, plan);
}

// Factors are divided by their sum whatever "norm_topk_prob" says, and there are no windows.
void read_qwen3_vl(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kQwen3VlShape, plan);
  LayerPlan layer = read_layer(config, shape, plan, {.theta = 5e5});
  layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  for (const char* key : {"use_sliding_window", "sliding_window", "max_window_layers"}) {
    (void)config.find(key);
  }
  ExpertsPlan experts = read_qwen_experts(
      config, {.count = 60, .chosen = 4, .width = 1408, .width_key = "moe_intermediate_size"});
  experts.normalised = true;
  plan.layers.assign(shape.layers, layer);
  set_experts(read_sparse_layers(config, shape.layers), experts, plan);
}

void qwen2_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .shared_width = "shared_expert_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .without = "mlp_only_layers"},
                    config);
  config["qkv_bias"] = config["attention_bias"];
}

void qwen3_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .normalised_by_default = true,
                     .without = "mlp_only_layers"},
                    config);
}

}  // namespace qwen_moe_family

const Family kQwen2Moe{.model_type = "qwen2_moe",
                       .class_stem = "Qwen2Moe",
                       .architecture = "qwen2moe",
                       .read = qwen_moe_family::read_qwen2,
                       .tensors = {.names = qwen_moe_family::kQwen2Names},
                       .from_gguf = qwen_moe_family::qwen2_from_gguf,
                       .to_gguf = experts_to_gguf};
const Family kQwen3Moe{.model_type = "qwen3_moe",
                       .class_stem = "Qwen3Moe",
                       .architecture = "qwen3moe",
                       .read = qwen_moe_family::read_qwen3,
                       .gguf_windows = GgufWindows::by_family,
                       .from_gguf = qwen_moe_family::qwen3_from_gguf,
                       .to_gguf = experts_to_gguf};
// The text part of Qwen 3 VL with experts.
const Family kQwen3VlMoe{.model_type = "qwen3_vl_moe_text",
                         .class_stem = "Qwen3VLMoeText",
                         .architecture = "qwen3moe",
                         .read = qwen_moe_family::read_qwen3_vl,
                         .tensors = {.stacks_may_turn = true},
                         .gguf_windows = GgufWindows::by_family,
                         .from_gguf = qwen_moe_family::qwen3_from_gguf,
                         .to_gguf = experts_to_gguf};

}  // namespace tenon
