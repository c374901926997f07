// DeepSeek-V2 and V3: multi-head latent attention (arXiv:2405.04434, arXiv:2412.19437) in front of
// Llama's MLP or of experts. Kimi K2 is a V3, GLM-4.7-Flash is one with other numbers, Youtu is one
// without experts, and A.X K1 has a norm after its experts.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/latent.h"

namespace tenon {
namespace deepseek_family {

constexpr ShapeDefaults kV2Shape{.vocabulary = 102400, .context_tokens = 2048, .bos = 1, .eos = 2};
constexpr ShapeDefaults kV3Shape{.vocabulary = 129280,
                                 .hidden = 7168,
                                 .intermediate = 18432,
                                 .layers = 61,
                                 .heads = 128,
                                 .context_tokens = 4096,
                                 .bos = 0,
                                 .eos = 1};
constexpr ShapeDefaults kLiteShape{.vocabulary = 154880,
                                   .hidden = 2048,
                                   .intermediate = 10240,
                                   .layers = 47,
                                   .heads = 20,
                                   .context_tokens = 202752,
                                   .bos = 0,
                                   .eos = 1};
constexpr LatentDefaults kLiteLatent{
    .q_rank = 768, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .v_dim = 256, .eps = 1e-5};
constexpr ShapeDefaults kYoutuShape{.vocabulary = 128256,
                                    .hidden = 2048,
                                    .intermediate = 6144,
                                    .layers = 32,
                                    .heads = 16,
                                    .context_tokens = 131072,
                                    .bos = 128000,
                                    .eos = 128001,
                                    .tied = true};

constexpr ShapeDefaults kAxK1Shape{.vocabulary = 163840,
                                   .hidden = 7168,
                                   .intermediate = 18432,
                                   .layers = 61,
                                   .heads = 64,
                                   .context_tokens = 32768,
                                   .bos = 163691,
                                   .eos = 163691};
// As transformers holds it in memory; published files have it next to the MLP.
constexpr TensorName kAxK1Names[] = {{Role::k, ""},
                                     {Role::v, ""},
                                     {Role::q_norm, ""},
                                     {Role::k_norm, ""},
                                     {Role::mlp_post_norm, "mlp.post_mlp_layernorm"}};

void read_groups(const JsonFields& config, ExpertsPlan& experts) {
  experts.groups = config.count("n_group", 1, 1, kMaxWidth);
  experts.groups_chosen = config.count("topk_group", 1, 1, kMaxWidth);
}

// Softmax of all scores; with "group_limited_greedy" the choice is among the best groups.
ExpertsPlan read_v2_experts(const JsonFields& config) {
  ExpertsPlan experts = read_experts(config, {.count = 64,
                                              .chosen = 0,
                                              .width = 1407,
                                              .width_key = "moe_intermediate_size",
                                              .count_key = "n_routed_experts"});
  experts.group_score = GroupScore::best;
  expect_value(config, "scoring_func", "softmax");
  const std::string method = config.text("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    for (const char* key : {"n_group", "topk_group"}) {
      if (!config.has(key)) {
        config.faults().invalid(config.name("topk_method") + " is " + in_quotes(method) + ", but " +
                                config.name(key) + " is missing");
      }
    }
    read_groups(config, experts);
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

void read_v2(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kV2Shape, plan);
  read_latent_layers(config, shape, {.head_dim_counts = false}, true, plan);
  const bool bias = config.flag("mlp_bias", false);
  for (LayerPlan& layer : plan.layers) layer.mlp.bias = bias;
  ExpertsPlan experts = read_v2_experts(config);
  experts.scale = static_cast<float>(config.number("routed_scaling_factor", 1.0));
  read_shared_experts(config, "n_shared_experts", 2, experts);
  set_checked_experts(config, read_sparse_after(config, 0, shape.layers), experts, plan);
  if (bias && plan.layers.back().experts) {
    config.faults().unsupported("'mlp_bias' is true; experts with biases are not built here");
  }
}

// As V3 chooses among `count` experts, where the config does not say how many.
ExpertsPlan read_grouped_router(const JsonFields& config, uint32_t count) {
  return read_sigmoid_router(config, {.experts = {.count = count,
                                                  .chosen = 8,
                                                  .width = 2048,
                                                  .width_key = "moe_intermediate_size",
                                                  .count_key = "n_routed_experts"},
                                      .scale = 2.5f,
                                      .groups = 8,
                                      .groups_chosen = 4});
}

void read_v3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kV3Shape, plan);
  read_latent_layers(config, shape, {}, read_interleave(config), plan);
  const ExpertsPlan experts = read_grouped_router(config, 256);
  set_checked_experts(config, read_sparse_after(config, 3, shape.layers), experts, plan);
}

void read_lite(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kLiteShape, plan);
  read_latent_layers(config, shape, kLiteLatent, read_interleave(config), plan);
  const ExpertsPlan experts =
      read_sigmoid_router(config, {.experts = {.count = 64,
                                               .chosen = 4,
                                               .width = 1536,
                                               .width_key = "moe_intermediate_size",
                                               .count_key = "n_routed_experts"},
                                   .scale = 1.8f});
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), experts, plan);
}

void read_ax_k1(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kAxK1Shape, plan);
  read_latent_layers(config, shape, {}, read_interleave(config), plan);
  const ExpertsPlan experts = read_grouped_router(config, 192);
  set_checked_experts(config, read_mlp_types(config, 1, shape.layers), experts, plan);
  for (LayerPlan& layer : plan.layers) {
    if (layer.experts) layer.mlp_post_norm = layer.mlp_norm;
    if (layer.latent.q_rank > 0) continue;
    config.faults().unsupported("'q_lora_rank' is null; this family makes q in two steps");
    break;
  }
}

void read_youtu(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_latent_shape(config, kYoutuShape, plan);
  read_latent_layers(config, shape, {}, read_interleave(config), plan);
}

// Files of models without experts name none. Older files name no groups, and then there are none.
void experts_from_gguf(const GgufFields& fields, bool v3, nlohmann::ordered_json& config) {
  if (fields.count(".expert_count", 0, 0, kMaxWidth) == 0) {
    config["first_k_dense_replace"] = config["num_hidden_layers"];
    return;
  }
  router_from_gguf(fields, v3 ? kGgufSigmoid : kGgufSoftmax, config);
  if (!v3 && config["n_group"] > 1) config["topk_method"] = "group_limited_greedy";
}

// Files of GLM-4.7-Flash may say nothing of scores, but have their correction.
bool has_correction(const GgufFields& fields, uint32_t layers) {
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (fields.has_tensor("blk." + std::to_string(layer) + ".exp_probs_b.bias")) return true;
  }
  return false;
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  latent_from_gguf(fields, config);
  const bool v3 = fields.count(".expert_gating_func", 0, 0, 255) == kGgufSigmoid ||
                  has_correction(fields, config["num_hidden_layers"].get<uint32_t>());
  if (v3) config["model_type"] = "deepseek_v3";
  experts_from_gguf(fields, v3, config);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  latent_to_gguf(plan, architecture, out);
  if (std::ranges::any_of(plan.layers, [](const LayerPlan& layer) { return !!layer.experts; })) {
    return router_to_gguf(plan, architecture, out);
  }
  out.add_count(architecture + ".leading_dense_block_count",
                static_cast<uint32_t>(plan.layers.size()));
  if (plan.architecture != "deepseek_v2") {
    out.add_count(architecture + ".expert_gating_func", kGgufSigmoid);
  }
}

}  // namespace deepseek_family

const Family kDeepseekV2{.model_type = "deepseek_v2",
                         .class_stem = "DeepseekV2",
                         .architecture = "deepseek2",
                         .read = deepseek_family::read_v2,
                         .tensors = {.names = kLatentNames},
                         .gguf_latent = true,
                         .from_gguf = deepseek_family::from_gguf,
                         .to_gguf = deepseek_family::to_gguf};
const Family kDeepseekV3{.model_type = "deepseek_v3",
                         .class_stem = "DeepseekV3",
                         .architecture = "deepseek2",
                         .read = deepseek_family::read_v3,
                         .tensors = {.names = kLatentNames},
                         .gguf_latent = true,
                         .from_gguf = deepseek_family::from_gguf,
                         .to_gguf = deepseek_family::to_gguf};
const Family kGlm4MoeLite{.model_type = "glm4_moe_lite",
                          .class_stem = "Glm4MoeLite",
                          .architecture = "deepseek2",
                          .read = deepseek_family::read_lite,
                          .tensors = {.names = kLatentNames},
                          .gguf_latent = true,
                          .from_gguf = deepseek_family::from_gguf,
                          .to_gguf = deepseek_family::to_gguf};
const Family kAxK1{.model_type = "axk1",
                   .class_stem = "AXK1",
                   .architecture = "",
                   .read = deepseek_family::read_ax_k1,
                   .tensors = {.names = deepseek_family::kAxK1Names,
                               .part = "mlp.post_mlp_layernorm",
                               .newer_part = "post_mlp_layernorm"}};
const Family kYoutu{.model_type = "youtu",
                    .class_stem = "Youtu",
                    .architecture = "deepseek2",
                    .read = deepseek_family::read_youtu,
                    .tensors = {.names = kLatentNames},
                    .gguf_latent = true,
                    .from_gguf = deepseek_family::from_gguf,
                    .to_gguf = deepseek_family::to_gguf};

}  // namespace tenon
