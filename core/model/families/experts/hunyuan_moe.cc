// Hunyuan A13B: Llama with norms of q and k after they turn, and experts of the MLP's width next to
// it. Hy3: norms before, and DeepSeek-V3's router without groups after dense layers.
#include <cmath>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace hunyuan_moe_family {

using nlohmann::json;

constexpr TensorName kA13bNames[] = {
    {Role::q_norm, "self_attn.query_layernorm"},
    {Role::k_norm, "self_attn.key_layernorm"},
    {Role::router, "mlp.gate.wg"},
    {Role::shared_gate, "mlp.shared_mlp.gate_proj"},
    {Role::shared_up, "mlp.shared_mlp.up_proj"},
    {Role::shared_down, "mlp.shared_mlp.down_proj"},
};

// A number, or a list of one for each layer.
std::vector<uint32_t> read_by_layer(const JsonFields& config, const char* key, uint32_t fallback,
                                    uint32_t layers) {
  const json* value = config.find(key);
  if (value == nullptr || !value->is_array()) {
    return std::vector<uint32_t>(layers, config.count(key, fallback, 1, kMaxWidth));
  }
  const auto sound = [](const json& item) {
    return item.is_number_unsigned() && item.get<uint64_t>() >= 1 &&
           item.get<uint64_t>() <= kMaxWidth;
  };
  if (value->size() == layers && std::ranges::all_of(*value, sound)) {
    return value->get<std::vector<uint32_t>>();
  }
  config.faults().invalid(config.name(key) + " is " + describe(*value) +
                          "; expected a number, or a list of " + std::to_string(layers) +
                          " numbers, one a layer");
  return std::vector<uint32_t>(layers, fallback);
}

// Keys of published files whose other values the reference overlooks.
void expect_usual(const JsonFields& config, const Shape& shape) {
  const std::pair<const char*, uint32_t> numbers[] = {{"moe_intermediate_size", shape.intermediate},
                                                      {"num_shared_expert", 1}};
  for (const auto& [key, usual] : numbers) {
    for (const uint32_t value : read_by_layer(config, key, usual, shape.layers)) {
      if (value == usual) continue;
      config.faults().unsupported(config.name(key) + " is " + std::to_string(value) +
                                  "; in this family it is " + std::to_string(usual));
      break;
    }
  }
  for (const char* key : {"use_qk_norm", "use_mixed_mlp_moe", "norm_topk_prob"}) {
    if (config.flag(key, true)) continue;
    config.faults().unsupported(config.name(key) + " is false; this family runs with true alone");
  }
}

// "dynamic" with an alpha does not depend on the length: the base is stretched once.
RopePlan read_a13b_rope(const JsonFields& config, uint32_t head_dim, uint32_t context_tokens) {
  const std::optional<JsonFields> rope = find_rope(config);
  const bool dynamic = rope && rope->text("rope_type", rope->text("type", "default")) == "dynamic";
  if (!dynamic || rope->number("alpha", 0.0) == 0.0) {
    return read_rope(config, {}, head_dim, context_tokens);
  }
  RopePlan plan = plain_rope(config, {}, head_dim);
  if (rope->has("rope_theta")) plan.theta = bounded_number(*rope, "rope_theta", 10000.0);
  const double dim = std::max(head_dim, 4u);
  plan.theta *= std::pow(bounded_number(*rope, "alpha", 1.0), dim / (dim - 2.0));
  return plan;
}

void read_a13b(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.vocabulary = 290943, .bos = 1, .eos = 2}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qk_norm_after_rope = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  plan.ropes = {read_a13b_rope(config, shape.head_dim, plan.context_tokens)};
  ExpertsPlan experts =
      read_experts(config, {.count = 1, .chosen = 1, .width = shape.intermediate});
  if (!experts) config.faults().invalid("'num_experts' is 0; every layer has experts");
  experts.normalised = true;
  experts.shared_width = shape.intermediate;
  expect_usual(config, shape);
  plan.layers.assign(shape.layers, layer);
  const char* chosen_key = general_or(config, "num_experts_per_tok", "moe_topk");
  const std::vector<uint32_t> chosen = read_by_layer(config, chosen_key, 1, shape.layers);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    plan.layers[i].experts = experts;
    plan.layers[i].experts.chosen = chosen[i];
    check_experts(config, plan.layers[i].experts);
  }
}

// Rotary settings are in the base already.
void a13b_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields, {}, config);
  config["moe_topk"] = config["num_experts_per_tok"];
  config.erase("num_experts_per_tok");
}

constexpr TensorName kHy3Names[] = {
    {Role::router, "mlp.router.gate"},
    {Role::router_correction, "mlp.expert_bias", "exp_probs_b", true},
    {Role::shared_gate, "mlp.shared_mlp.gate_proj"},
    {Role::shared_up, "mlp.shared_mlp.up_proj"},
    {Role::shared_down, "mlp.shared_mlp.down_proj"},
};
constexpr std::pair<std::string_view, std::string_view> kHy3Parts[] = {
    {"mlp.expert_bias", "mlp.e_score_correction_bias"}, {"mlp.shared_mlp.", "mlp.shared_experts."}};
constexpr ShapeDefaults kHy3Shape{.vocabulary = 120832,
                                  .intermediate = 13312,
                                  .layers = 80,
                                  .heads = 64,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .context_tokens = 131072};

void read_hy3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kHy3Shape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  plan.ropes = {read_rope(config, {.theta = 11158840.0}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  ExpertsPlan experts = read_sigmoid_router(
      config,
      {.experts = {.count = 192, .chosen = 8, .width = 1536, .width_key = "moe_intermediate_size"},
       .shared_key = "num_shared_experts",
       .scale = 2.826f,
       .scale_key = "router_scaling_factor"});
  experts.shared_bias = layer.mlp.bias;
  experts.normalised = true;
  for (const char* key : {"norm_topk_prob", "route_norm"}) {
    if (config.flag(key, true)) continue;
    config.faults().unsupported(config.name(key) +
                                " is false; the factors of this family are "
                                "divided by their sum");
  }
  (void)config.flag("enable_moe_fp32_combine", true);  // sums are f32 here anyway
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), experts, plan);
}

void hy3_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields,
                    {.width = "moe_intermediate_size",
                     .scale = "router_scaling_factor",
                     .shared_count = "num_shared_experts",
                     .types = "mlp_layer_types",
                     .gating = kGgufSigmoid},
                    config);
}

}  // namespace hunyuan_moe_family

const Family kHunyuanMoe{.model_type = "hunyuan_v1_moe",
                         .class_stem = "HunYuanMoEV1",
                         .architecture = "hunyuan-moe",
                         .read = hunyuan_moe_family::read_a13b,
                         .tensors = {.names = hunyuan_moe_family::kA13bNames},
                         .from_gguf = hunyuan_moe_family::a13b_from_gguf,
                         .to_gguf = experts_to_gguf};
const Family kHyV3{.model_type = "hy_v3",
                   .class_stem = "HYV3",
                   .architecture = "hy_v3",
                   .read = hunyuan_moe_family::read_hy3,
                   .tensors = {.names = hunyuan_moe_family::kHy3Names,
                               .part = "mlp.router.gate.",
                               .newer_part = "mlp.gate.",
                               .more_parts = hunyuan_moe_family::kHy3Parts},
                   .from_gguf = hunyuan_moe_family::hy3_from_gguf,
                   .to_gguf = router_to_gguf};

}  // namespace tenon
