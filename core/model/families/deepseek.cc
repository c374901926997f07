// DeepSeek-V2 and V3: multi-head latent attention (arXiv:2405.04434, arXiv:2412.19437) in front of
// Llama's MLP or of experts.
#include <algorithm>
#include <cmath>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/families/families.h"
#include "core/model/families/reading_experts.h"

namespace tenon {
namespace deepseek_family {

constexpr TensorName kNames[] = {
    {Role::k, ""},
    {Role::v, ""},
    {Role::q_norm, ""},
    {Role::k_norm, ""},
};

// Heads have sizes of their own, so that the general one counts for nothing.
constexpr ShapeDefaults kV2Shape{
    .vocabulary = 102400, .head_dim = 2, .context_tokens = 2048, .bos = 1, .eos = 2};
constexpr ShapeDefaults kV3Shape{.vocabulary = 129280,
                                 .hidden = 7168,
                                 .intermediate = 18432,
                                 .layers = 61,
                                 .heads = 128,
                                 .head_dim = 2,
                                 .context_tokens = 4096,
                                 .bos = 0,
                                 .eos = 1};
// transformers hard-codes it for the norms of low ranks.
constexpr NormPlan kLowRankNorm{.kind = NormKind::rms, .eps = 1e-6f};

LatentAttentionPlan read_latent(const JsonFields& config, const Shape& shape) {
  LatentAttentionPlan latent;
  const char* q_key = "q_lora_rank";
  latent.q_rank = config.is_null(q_key) ? 0 : config.count(q_key, 1536, 1, kMaxWidth);
  latent.kv_rank = config.count("kv_lora_rank", 512, 1, kMaxWidth);
  latent.nope_dim = config.count("qk_nope_head_dim", 128, 1, kMaxWidth);
  latent.rope_dim = config.count("qk_rope_head_dim", 64, 1, kMaxWidth);
  latent.v_dim = config.count("v_head_dim", 128, 1, kMaxWidth);
  latent.norm = kLowRankNorm;
  latent.bias = config.flag("attention_bias", false);
  if (latent.rope_dim % 2 != 0) {
    config.faults().invalid("'qk_rope_head_dim' is " + std::to_string(latent.rope_dim) +
                            "; expected an even number: rotary embedding turns pairs");
    latent.rope_dim = 2;
  }
  const uint64_t widest =
      uint64_t{latent.kv_rank} + latent.rope_dim + latent.nope_dim + latent.v_dim;
  if (shape.heads * widest > kMaxWidth) {
    config.faults().invalid(std::to_string(shape.heads) + " heads over latent rows of " +
                            std::to_string(latent.kv_rank) + " + " +
                            std::to_string(latent.rope_dim) + " elements are too wide; at most " +
                            std::to_string(kMaxWidth) + " together");
    latent.kv_rank = latent.nope_dim = latent.v_dim = latent.rope_dim = 2;
  }
  return latent;
}

// K and V of each head follow from the latent row, so there is nothing that heads could share.
void check_kv_heads(const JsonFields& config, const Shape& shape) {
  const char* key = "num_key_value_heads";
  const uint32_t kv_heads = config.count(key, shape.heads, 1, kMaxWidth);
  if (kv_heads == shape.heads) return;
  config.faults().unsupported(config.name(key) + " is " + std::to_string(kv_heads) +
                              "; latent attention has K and V for each of its " +
                              std::to_string(shape.heads) + " heads");
}

// The context's stretch raises the scale, where the settings say by how much (arXiv:2309.00071).
float read_scale(const LatentAttentionPlan& latent, const RopeScaling& scaling) {
  const double stretch = scaling.mscale_all_dim != 0.0 && scaling.factor > 1.0
                             ? 0.1 * scaling.mscale_all_dim * std::log(scaling.factor) + 1.0
                             : 1.0;
  return static_cast<float>(stretch * stretch / std::sqrt(static_cast<double>(latent.q_dim())));
}

// Layers from `first_k_dense_replace` on have experts, and shared ones beside them, which are one
// wide MLP.
void set_experts_behind_dense_layers(const JsonFields& config, uint32_t dense_by_default,
                                     uint32_t shared_by_default, ExpertsPlan experts,
                                     ModelPlan& plan) {
  const uint32_t dense = config.count("first_k_dense_replace", dense_by_default, 0, kMaxLayers);
  const uint32_t shared =
      config.count("n_shared_experts", shared_by_default, 0, kMaxWidth / experts.width);
  experts.shared_width = shared * experts.width;
  experts.scale = static_cast<float>(config.number("routed_scaling_factor", experts.scale));
  if (dense >= plan.layers.size()) return;
  check_experts(config, experts);
  std::vector<bool> sparse(plan.layers.size(), false);
  for (size_t layer = dense; layer < sparse.size(); ++layer) sparse[layer] = true;
  set_experts(sparse, experts, plan);
}

void read_groups(const JsonFields& config, uint32_t groups, uint32_t chosen, ExpertsPlan& experts) {
  experts.groups = config.count("n_group", groups, 1, kMaxWidth);
  experts.groups_chosen = config.count("topk_group", chosen, 1, kMaxWidth);
}

void expect_text(const JsonFields& config, const char* key, std::string_view expected) {
  const std::string value = config.text(key, expected);
  if (value == expected) return;
  config.faults().unsupported(config.name(key) + " is " + in_quotes(value) + "; of this family " +
                              in_quotes(expected) + " is built");
}

// Softmax of all scores; with "group_limited_greedy" the choice is among the best groups.
ExpertsPlan read_v2_experts(const JsonFields& config) {
  ExpertsPlan experts = read_experts(config, {.count = 64,
                                              .chosen = 0,
                                              .width = 1407,
                                              .width_key = "moe_intermediate_size",
                                              .count_key = "n_routed_experts"});
  experts.group_score = GroupScore::best;
  expect_text(config, "scoring_func", "softmax");
  const std::string method = config.text("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    for (const char* key : {"n_group", "topk_group"}) {
      if (!config.has(key)) {
        config.faults().invalid(config.name("topk_method") + " is " + in_quotes(method) + ", but " +
                                config.name(key) + " is missing");
      }
    }
    read_groups(config, 1, 1, experts);
  } else if (method != "greedy") {
    config.faults().unsupported(config.name("topk_method") + " is " + in_quotes(method) +
                                "; expected \"greedy\" or \"group_limited_greedy\"");
  }
  (void)config.find("n_group");
  (void)config.find("topk_group");
  // transformers never divides by the sum, whatever this says.
  (void)config.flag("norm_topk_prob", false);
  return experts;
}

// Sigmoids of the scores; what is chosen by has a correction, and groups are judged by their two
// best.
ExpertsPlan read_v3_experts(const JsonFields& config) {
  ExpertsPlan experts = read_experts(config, {.count = 256,
                                              .chosen = 8,
                                              .width = 2048,
                                              .width_key = "moe_intermediate_size",
                                              .count_key = "n_routed_experts"});
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = true;
  experts.group_score = GroupScore::best_two;
  experts.scale = 2.5f;
  expect_text(config, "scoring_func", "sigmoid");
  expect_text(config, "topk_method", "noaux_tc");
  read_groups(config, 8, 4, experts);
  experts.normalised = config.flag("norm_topk_prob", true);
  return experts;
}

void read_layers(const JsonFields& config, const Shape& shape, bool pairs, ModelPlan& plan) {
  check_kv_heads(config, shape);
  (void)config.find("head_dim");  // transformers puts qk_rope_head_dim in its place
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.latent = read_latent(config, shape);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {.pairs = pairs}, layer.latent.rope_dim, plan.context_tokens)};
  layer.attention.kv_heads = 1;
  layer.attention.head_dim = layer.latent.row_dim();
  layer.attention.scale = read_scale(layer.latent, plan.ropes.front().scaling);
  layer.attention.output_bias = layer.latent.bias;
  plan.layers.assign(shape.layers, layer);
}

void read_v2(const JsonFields& config, ModelPlan& plan) {
  const Shape shape =
      read_shape(config, kV2Shape, plan, {.kv_heads = nullptr, .head_dim = nullptr});
  read_layers(config, shape, true, plan);
  const bool bias = config.flag("mlp_bias", false);
  for (LayerPlan& layer : plan.layers) layer.mlp.bias = bias;
  set_experts_behind_dense_layers(config, 0, 2, read_v2_experts(config), plan);
  if (bias && plan.layers.back().experts) {
    config.faults().unsupported("'mlp_bias' is true; experts with biases are not built here");
  }
}

void read_v3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape =
      read_shape(config, kV3Shape, plan, {.kv_heads = nullptr, .head_dim = nullptr});
  const char* key = "rope_interleave";
  read_layers(config, shape, !config.is_null(key) && config.flag(key, true), plan);
  set_experts_behind_dense_layers(config, 3, 1, read_v3_experts(config), plan);
}

// The log of YaRN's factor times this is what attention is raised by; both of the names that
// config.json has for it, since the file says nothing of cosines and sines.
void yarn_from_gguf(const GgufFields& fields, nlohmann::ordered_json& scaling) {
  const char* exact = "tenon.rope.yarn.mscale_all_dim";
  const char* multiplier = ".rope.scaling.yarn_log_multiplier";
  if (!fields.has(exact) && !fields.has(multiplier)) return;
  const auto narrow = static_cast<float>(fields.number(multiplier, 0.0, 0.0, 1e30));
  const double all = 10.0 * shortest_double(narrow);
  scaling["mscale_all_dim"] = fields.number(exact, all, 0.0, 1e30);
  scaling["mscale"] = fields.number("tenon.rope.yarn.mscale", all, 0.0, 1e30);
}

constexpr uint32_t kSigmoid = 2;  // of experts, which tells V3's files from V2's

// Files of models without experts name none. Older files name no groups, and then there are none.
void experts_from_gguf(const GgufFields& fields, bool v3, nlohmann::ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  if (fields.count(".expert_count", 0, 0, kMaxWidth) == 0) {
    config["first_k_dense_replace"] = layers;
    return;
  }
  config["first_k_dense_replace"] = fields.count(".leading_dense_block_count", 0, 0, kMaxLayers);
  config["n_shared_experts"] = fields.count(".expert_shared_count", 0, 0, kMaxWidth);
  experts_from_gguf(fields,
                    {.count = "n_routed_experts",
                     .width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .scale = "routed_scaling_factor",
                     .groups = "n_group",
                     .groups_chosen = "topk_group",
                     .gating = v3 ? kSigmoid : 1u},
                    config);
  if (!v3 && config["n_group"] > 1) config["topk_method"] = "group_limited_greedy";
}

// Files from before May 2025 have the sizes of heads where newer ones have those of the cache's
// row, and those of heads beside them.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const uint32_t rank = fields.need_count(".attention.kv_lora_rank", 1, kMaxWidth);
  const uint32_t rope = fields.need_count(".rope.dimension_count", 1, kMaxWidth);
  const uint32_t heads_k = fields.count(".attention.key_length", 0, 0, kMaxWidth);
  const uint32_t heads_v = fields.count(".attention.value_length", 0, 0, kMaxWidth);
  const uint32_t k = fields.count(".attention.key_length_mla", heads_k, 0, kMaxWidth);
  const uint32_t v = fields.count(".attention.value_length_mla", heads_v, 0, kMaxWidth);
  if (k <= rope || v == 0) {
    fields.faults().invalid(fields.name(".attention.key_length_mla") + " is " + std::to_string(k) +
                            "; expected the size of a head, of which " + std::to_string(rope) +
                            " elements turn, and " + fields.name(".attention.value_length_mla") +
                            " beside it");
    return;
  }
  const uint32_t q_rank = fields.count(".attention.q_lora_rank", 0, 0, kMaxWidth);
  config["q_lora_rank"] = q_rank > 0 ? nlohmann::ordered_json(q_rank) : nlohmann::ordered_json();
  config["kv_lora_rank"] = rank;
  config["qk_nope_head_dim"] = k - rope;
  config["qk_rope_head_dim"] = rope;
  config["v_head_dim"] = v;
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["attention_bias"] = fields.has_tensor("blk.0.attn_kv_a_mqa.bias");
  config["mlp_bias"] = fields.has_tensor("blk.0.ffn_down.bias");
  const bool v3 = fields.count(".expert_gating_func", 0, 0, 255) == kSigmoid;
  if (v3) config["model_type"] = "deepseek_v3";
  experts_from_gguf(fields, v3, config);
  config.erase("head_dim");
  if (config["rope_scaling"].is_object()) yarn_from_gguf(fields, config["rope_scaling"]);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const LatentAttentionPlan& latent = plan.layers.front().latent;
  if (latent.q_rank > 0) out.add_count(architecture + ".attention.q_lora_rank", latent.q_rank);
  out.add_count(architecture + ".attention.kv_lora_rank", latent.kv_rank);
  out.add_count(architecture + ".attention.key_length_mla", latent.q_dim());
  out.add_count(architecture + ".attention.value_length_mla", latent.v_dim);
  const auto dense =
      std::ranges::count_if(plan.layers, [](const LayerPlan& layer) { return !layer.experts; });
  out.add_count(architecture + ".leading_dense_block_count", static_cast<uint32_t>(dense));
  const ExpertsPlan& experts = plan.layers.back().experts;
  if (experts) {
    experts_to_gguf(plan, architecture, out);
    out.add_count(architecture + ".expert_shared_count", experts.shared_width / experts.width);
  } else if (plan.architecture == "deepseek_v3") {
    out.add_count(architecture + ".expert_gating_func", kSigmoid);
  }
  const RopeScaling& scaling = plan.ropes.front().scaling;
  if (scaling.mscale_all_dim == 0.0) return;
  out.add_real(architecture + ".rope.scaling.yarn_log_multiplier",
               static_cast<float>(0.1 * scaling.mscale_all_dim));
  // What f32 rounds, to compute as precisely again.
  out.add_exact("tenon.rope.yarn.mscale_all_dim", scaling.mscale_all_dim);
  out.add_exact("tenon.rope.yarn.mscale", scaling.mscale);
}

}  // namespace deepseek_family

const Family kDeepseekV2{.model_type = "deepseek_v2",
                         .class_stem = "DeepseekV2",
                         .architecture = "deepseek2",
                         .read = deepseek_family::read_v2,
                         .tensors = {.names = deepseek_family::kNames},
                         .gguf_latent = true,
                         .from_gguf = deepseek_family::from_gguf,
                         .to_gguf = deepseek_family::to_gguf};
const Family kDeepseekV3{.model_type = "deepseek_v3",
                         .class_stem = "DeepseekV3",
                         .architecture = "deepseek2",
                         .read = deepseek_family::read_v3,
                         .tensors = {.names = deepseek_family::kNames},
                         .gguf_latent = true,
                         .from_gguf = deepseek_family::from_gguf,
                         .to_gguf = deepseek_family::to_gguf};

}  // namespace tenon
