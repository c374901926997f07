// gpt-oss: experts with biases and a clamped SwiGLU in every layer, attention sinks, windows in
// every other layer.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace gpt_oss_family {

constexpr TensorName kNames[] = {
    {Role::mlp_norm, "post_attention_layernorm", "post_attention_norm"},
    {Role::router, "mlp.router"},
};

// What transformers takes where nothing is said.
RopePlan read_gpt_oss_rope(const JsonFields& config, uint32_t head_dim, uint32_t context_tokens) {
  const RopeDefaults defaults{.theta = 150000.0};
  if (config.has("rope_parameters") || config.has("rope_scaling")) {
    return read_rope(config, defaults, head_dim, context_tokens);
  }
  static const nlohmann::json kYarn = {
      {"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
      {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096u}};
  return read_rope_object(config, JsonFields(kYarn, config.faults()), defaults, head_dim,
                          context_tokens);
}

void read_windows(const JsonFields& config, ModelPlan& plan) {
  const uint32_t window =
      config.is_null("sliding_window") ? 0 : config.count("sliding_window", 128, 1, kMaxWidth);
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  for (size_t i = sliding.size(); i < plan.layers.size(); ++i) sliding.push_back(i % 2 == 0);
  set_windows(sliding, window, plan);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 201088,
                                  .hidden = 2880,
                                  .intermediate = 2880,
                                  .layers = 36,
                                  .heads = 64,
                                  .kv_heads = 8,
                                  .head_dim = 64,
                                  .context_tokens = 131072},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", true);
  layer.attention.sinks = true;
  // hidden_act is overlooked: the experts' function is the clamped one.
  layer.experts = read_experts(config, {.count = 128, .chosen = 4, .width = shape.intermediate});
  layer.experts.activation = layer.mlp.activation = Activation::silu;
  layer.experts.scoring = ExpertScoring::softmax_of_chosen;
  layer.experts.bias = layer.experts.router_bias = true;
  layer.experts.swiglu_alpha = static_cast<float>(bounded_number(config, "swiglu_alpha", 1.702));
  layer.experts.swiglu_limit = static_cast<float>(bounded_number(config, "swiglu_limit", 7.0));
  if (!layer.experts) config.faults().invalid("a gpt-oss model has experts; there are 0");
  check_experts(config, layer.experts);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_gpt_oss_rope(config, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  read_windows(config, plan);
}

// The files have no key for cut-offs that are not rounded, as these models have them.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields, {.count = "num_local_experts", .gating = 3}, config);
  if (config["rope_scaling"].is_null()) config["rope_scaling"] = {{"rope_type", "default"}};
  if (config["rope_scaling"]["rope_type"] == "yarn") config["rope_scaling"]["truncate"] = false;
  config.erase("use_sliding_window");
  if (fields.has("tenon.swiglu_alpha")) {
    config["swiglu_alpha"] = fields.number("tenon.swiglu_alpha", 1.702, 1e-6, 1e30);
  }
  if (fields.has("tenon.swiglu_limit")) {
    config["swiglu_limit"] = fields.number("tenon.swiglu_limit", 7.0, 1e-6, 1e30);
  }
}

// Other programs know the usual numbers alone.
void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  experts_to_gguf(plan, architecture, out);
  const ExpertsPlan& experts = plan.layers.front().experts;
  if (experts.swiglu_alpha != 1.702f) out.add_exact("tenon.swiglu_alpha", experts.swiglu_alpha);
  if (experts.swiglu_limit != 7.0f) out.add_exact("tenon.swiglu_limit", experts.swiglu_limit);
}

}  // namespace gpt_oss_family

const Family kGptOss{
    .model_type = "gpt_oss",
    .class_stem = "GptOss",
    .architecture = "gpt-oss",
    .read = gpt_oss_family::read,
    .tensors = {.names = gpt_oss_family::kNames, .experts = ExpertLayout::interleaved},
    .gguf_windows = GgufWindows::by_family,
    .gguf_theta = 150000.0,
    .from_gguf = gpt_oss_family::from_gguf,
    .to_gguf = gpt_oss_family::to_gguf};

}  // namespace tenon
