// Command A+: Command-R's parallel halves with experts after some dense layers; layers with a
// window turn, and so do dense ones where all of them see everything.
#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace cohere_moe_family {

constexpr TensorName kNames[] = {{Role::mlp_norm, ""}};
constexpr ShapeDefaults kShape{.vocabulary = 256000,
                               .hidden = 8192,
                               .intermediate = 22528,
                               .layers = 40,
                               .heads = 64,
                               .head_dim = 128,
                               .context_tokens = 8192,
                               .bos = 5,
                               .eos = 255001,
                               .tied = true};

// Layer norms without a bias, or RMS norms where the file has their epsilon.
NormPlan read_norm(const JsonFields& config) {
  const bool rms = config.has("rms_norm_eps");
  const float eps = read_eps(config, rms ? "rms_norm_eps" : "layer_norm_eps", 1e-5);
  (void)config.find("layer_norm_eps");
  return {.kind = rms ? NormKind::rms : NormKind::layer, .eps = eps};
}

// Which is one of the two names; the other is the default.
bool is_text(const JsonFields& config, const char* key, const char* fallback, const char* other) {
  const std::string value = config.text(key, fallback);
  if (value != fallback && value != other) {
    config.faults().unsupported(config.name(key) + " is " + in_quotes(value) + "; there are \"" +
                                fallback + "\" and \"" + other + "\"");
  }
  return value == other;
}

ExpertsPlan read_experts_of(const JsonFields& config, uint32_t width) {
  ExpertsPlan experts = read_experts(config, {.count = 8, .chosen = 2, .width = width});
  const bool sigmoid = is_text(config, "expert_selection_fn", "softmax", "sigmoid");
  experts.scoring = sigmoid ? ExpertScoring::sigmoid : ExpertScoring::softmax_of_chosen;
  experts.normalised = config.flag("norm_topk_prob", true) && sigmoid;
  read_shared_experts(config, "num_shared_experts", 0, experts);
  const bool sum = is_text(config, "shared_expert_combination_strategy", "average", "sum");
  if (experts.shared_width > 0 && !sum) experts.scale = experts.shared_scale = 0.5f;
  return experts;
}

// Every n-th layer sees everything, counted anew behind the dense ones.
std::vector<bool> read_windows(const JsonFields& config, size_t layers) {
  const uint32_t dense = config.count("first_k_dense_replace", 0, 0, kMaxLayers);
  const uint32_t first = config.count("prefix_dense_sliding_window_pattern", 1, 1, kMaxLayers);
  const uint32_t later = config.count("sliding_window_pattern", 4, 1, kMaxLayers);
  std::vector<bool> sliding = read_sliding_layers(config, layers);
  for (size_t i = sliding.size(); i < layers; ++i) {
    sliding.push_back(i < dense ? (i + 1) % first != 0 : (i - dense + 1) % later != 0);
  }
  return sliding;
}

// transformers overlooks rope_scaling.
RopePlan read_turn(const JsonFields& config, uint32_t head_dim, uint32_t context_tokens) {
  const RopeDefaults defaults{.pairs = true};
  (void)config.find("rope_scaling");
  const std::optional<JsonFields> rope = config.object("rope_parameters");
  return rope ? read_rope_object(config, *rope, defaults, head_dim, context_tokens)
              : plain_rope(config, defaults, head_dim);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = llama_layer(shape, 1e-5f);
  layer.attention_norm = plan.final_norm = read_norm(config);
  layer.mlp_norm = {};
  layer.parallel = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.width =
      config.count("prefix_dense_intermediate_size", shape.intermediate, 1, kMaxWidth);
  plan.logit_scale = static_cast<float>(config.number("logit_scale", 0.0625));
  plan.ropes = {read_turn(config, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  const std::vector<bool> sparse = read_mlp_types(config, 0, shape.layers);
  set_checked_experts(config, sparse, read_experts_of(config, shape.intermediate), plan);
  const char* key = "sliding_window";
  const uint32_t window = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  set_windows(read_windows(config, shape.layers), window, plan);
  const bool dense_turn =
      config.count("prefix_dense_sliding_window_pattern", 1, 1, kMaxLayers) == 1;
  for (LayerPlan& each : plan.layers) {
    const bool turns = each.attention.window_tokens > 0 || (dense_turn && !each.experts);
    if (!turns) each.attention.rope = -1;
  }
}

// The general width is that of dense layers, and factors are sigmoids.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["prefix_dense_intermediate_size"] = config["intermediate_size"];
  experts_from_gguf(fields,
                    {.count = "num_experts",
                     .width = "intermediate_size",
                     .normalised = "norm_topk_prob",
                     .shared_count = "num_shared_experts",
                     .dense = "first_k_dense_replace",
                     .types = "mlp_layer_types",
                     .gating = kGgufSigmoid},
                    config);
  config["expert_selection_fn"] = "sigmoid";
  config["logit_scale"] = fields.number(".logit_scale", 0.0625, 1e-6, 1e6);
  if (fields.has(".attention.layer_norm_rms_epsilon")) {
    config["rms_norm_eps"] = config["layer_norm_eps"];
  }
  windows_from_gguf(fields, config);
  if (!config["rope_scaling"].is_object()) return;
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
}

// No key says the mean of the two sums, nor factors other than sigmoids.
void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  ModelPlan whole = plan;
  for (LayerPlan& layer : whole.layers) {
    layer.experts.scale = 1.0f;
    layer.experts.scoring = ExpertScoring::sigmoid;
  }
  router_to_gguf(whole, architecture, out);
  out.add_real(architecture + ".logit_scale", plan.logit_scale);
}

}  // namespace cohere_moe_family

const Family kCohere2Moe{.model_type = "cohere2_moe",
                         .class_stem = "Cohere2Moe",
                         .architecture = "cohere2moe",
                         .read = cohere_moe_family::read,
                         .tensors = {.names = cohere_moe_family::kNames},
                         .gguf_windows = GgufWindows::by_family,
                         .gguf_eps_key = "layer_norm_eps",
                         .from_gguf = cohere_moe_family::from_gguf,
                         .to_gguf = cohere_moe_family::to_gguf};

}  // namespace tenon
