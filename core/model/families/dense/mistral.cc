// Mistral 7B and its successors: Llama with a window in every layer, or in none. Ministral 3 lets q
// grow with the position; so does Mistral Small 4, which has latent attention and experts.
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/latent.h"

namespace tenon {
namespace mistral_family {

using nlohmann::json;
using nlohmann::ordered_json;

LayerPlan read_layer(const JsonFields& config, const Shape& shape, double eps, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", eps));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  return layer;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config, {.intermediate = 14336, .kv_heads = 8, .context_tokens = 131072, .bos = 1, .eos = 2},
      plan);
  LayerPlan layer = read_layer(config, shape, 1e-6, plan);
  const char* key = "sliding_window";
  layer.attention.window_tokens = config.is_null(key) ? 0 : config.count(key, 4096, 1, kMaxWidth);
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

// What the reference takes for a config.json without rotary settings.
json settings_of(double theta, double factor, uint32_t original_tokens) {
  return {{"rope_type", "yarn"},        {"rope_theta", theta},
          {"factor", factor},           {"original_max_position_embeddings", original_tokens},
          {"beta_fast", 32.0},          {"beta_slow", 1.0},
          {"mscale_all_dim", 1.0},      {"mscale", 1.0},
          {"llama_4_scaling_beta", 0.1}};
}

const json& ministral_settings() {
  static const json kSettings = settings_of(1e6, 16.0, 16384);
  return kSettings;
}
const json& small_settings() {
  static const json kSettings = settings_of(1e4, 128.0, 8192);
  return kSettings;
}

// Beside the rotary settings, whose original context it counts in.
QGrowth read_growth(const JsonFields& config, const json& otherwise) {
  std::optional<JsonFields> rope = find_rope(config);
  if (!rope) rope.emplace(otherwise, config.faults());
  const char* key = "original_max_position_embeddings";
  QGrowth growth;
  growth.beta = static_cast<float>(rope->number("llama_4_scaling_beta", 0.0));
  growth.tokens = rope->count(key, 0, 1, kMaxWidth);
  if (growth && growth.tokens == 0) {
    config.faults().invalid(rope->name(key) + " is missing; 'llama_4_scaling_beta' needs it");
  }
  return growth ? growth : QGrowth{};
}

void read_ministral(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 131072,
                                  .intermediate = 14336,
                                  .layers = 34,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .context_tokens = 262144,
                                  .bos = 1,
                                  .eos = 2},
                                 plan);
  LayerPlan layer = read_layer(config, shape, 1e-5, plan);
  const char* key = "sliding_window";
  layer.attention.window_tokens = config.has(key) ? config.count(key, 1, 1, kMaxWidth) : 0;
  layer.attention.q_growth = read_growth(config, ministral_settings());
  plan.ropes = {
      read_rope(config, {.settings = &ministral_settings()}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

// Softmax of all scores, among the groups whose two best add up to most.
ExpertsPlan read_small_experts(const JsonFields& config) {
  ExpertsPlan experts = read_experts(config, {.count = 128,
                                              .chosen = 4,
                                              .width = 2048,
                                              .width_key = "moe_intermediate_size",
                                              .count_key = "n_routed_experts"});
  expect_value(config, "scoring_func", "softmax");
  experts.group_score = GroupScore::best_two;
  experts.groups = config.count("n_group", 1, 1, kMaxWidth);
  experts.groups_chosen = config.count("topk_group", 1, 1, kMaxWidth);
  experts.normalised = config.truth("norm_topk_prob", true);
  experts.scale = static_cast<float>(config.number("routed_scaling_factor", 1.0));
  read_shared_experts(config, "n_shared_experts", 1, experts);
  return experts;
}

void read_small(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config,
                                        {.vocabulary = 131072,
                                         .intermediate = 12288,
                                         .layers = 36,
                                         .context_tokens = 1048576,
                                         .bos = 1,
                                         .eos = 2},
                                        plan);
  const LatentDefaults latent{.q_rank = 1024,
                              .kv_rank = 256,
                              .nope_dim = 64,
                              .rope_of_heads = true,
                              .rope_settings = &small_settings()};
  read_latent_layers(config, shape, latent, read_interleave(config), plan);
  const QGrowth growth = read_growth(config, small_settings());
  for (LayerPlan& layer : plan.layers) layer.attention.q_growth = growth;
  set_checked_experts(config, read_sparse_after(config, 0, shape.layers),
                      read_small_experts(config), plan);
}

// Files count in the context before yarn's stretch, or say in what.
void growth_from_gguf(const GgufFields& fields, ordered_json& config) {
  const double beta = fields.number(".attention.temperature_scale", 0.0, 0.0, 1e6);
  if (beta == 0.0) return;
  ordered_json& rope = config["rope_scaling"];
  if (!rope.is_object()) rope = {{"rope_type", "default"}};
  const uint32_t original =
      fields.count(".rope.scaling.original_context_length",
                   config["max_position_embeddings"].get<uint32_t>(), 1, kMaxWidth);
  rope["original_max_position_embeddings"] =
      fields.count(".attention.temperature_length", original, 1, kMaxWidth);
  rope["llama_4_scaling_beta"] = shortest_double(static_cast<float>(beta));
}

void growth_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const QGrowth& growth = plan.layers.front().attention.q_growth;
  if (!growth) return;
  out.add_real(architecture + ".attention.temperature_scale", growth.beta);
  out.add_count(architecture + ".attention.temperature_length", growth.tokens);
}

// What attention is raised by stands there as it is, not by the tenth as in files of DeepSeek.
void ministral_from_gguf(const GgufFields& fields, ordered_json& config) {
  if (config["rope_scaling"].is_object()) {
    const auto narrow =
        static_cast<float>(fields.number(".rope.scaling.yarn_log_multiplier", 0.0, 0.0, 1e30));
    const double all = shortest_double(narrow);
    ordered_json& rope = config["rope_scaling"];
    rope["mscale_all_dim"] = fields.number("tenon.rope.yarn.mscale_all_dim", all, 0.0, 1e30);
    rope["mscale"] = fields.number("tenon.rope.yarn.mscale", all, 0.0, 1e30);
  }
  growth_from_gguf(fields, config);
}

void ministral_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  growth_to_gguf(plan, architecture, out);
  const RopeScaling& scaling = plan.ropes.front().scaling;
  if (scaling.mscale_all_dim == 0.0) return;
  out.add_real(architecture + ".rope.scaling.yarn_log_multiplier",
               static_cast<float>(scaling.mscale_all_dim));
  out.add_exact("tenon.rope.yarn.mscale_all_dim", scaling.mscale_all_dim);
  out.add_exact("tenon.rope.yarn.mscale", scaling.mscale);
}

void small_from_gguf(const GgufFields& fields, ordered_json& config) {
  latent_from_gguf(fields, config);
  config.erase("mlp_bias");
  router_from_gguf(fields, kGgufSoftmax, config);
  growth_from_gguf(fields, config);
}

void small_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  latent_to_gguf(plan, architecture, out);
  router_to_gguf(plan, architecture, out);
  growth_to_gguf(plan, architecture, out);
}

}  // namespace mistral_family

const Family kMistral{.model_type = "mistral",
                      .class_stem = "Mistral",
                      .architecture = "llama",
                      .read = mistral_family::read,
                      .gguf_pairs_rows = true,
                      .gguf_windows = GgufWindows::by_family};
const Family kMinistral3{.model_type = "ministral3",
                         .class_stem = "Ministral3",
                         .architecture = "mistral3",
                         .read = mistral_family::read_ministral,
                         .gguf_pairs_rows = true,
                         .gguf_windows = GgufWindows::by_family,
                         .from_gguf = mistral_family::ministral_from_gguf,
                         .to_gguf = mistral_family::ministral_to_gguf};
const Family kMistral4{.model_type = "mistral4",
                       .class_stem = "Mistral4",
                       .architecture = "mistral4",
                       .read = mistral_family::read_small,
                       .tensors = {.names = kLatentNames},
                       .gguf_latent = true,
                       .from_gguf = mistral_family::small_from_gguf,
                       .to_gguf = mistral_family::small_to_gguf};

}  // namespace tenon
