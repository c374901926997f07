// LongCat-Flash: a layer of its files is two of DeepSeek-V3's attentions and MLPs each, and experts
// that read what the first MLP reads and join after the second. Some experts do nothing. Low ranks
// have factors that follow from their widths.
#include <cmath>

#include "core/model/families/families.h"
#include "core/model/families/reading/latent.h"

namespace tenon {
namespace longcat_family {

constexpr TensorName kNames[] = {
    {Role::attention_norm, "input_layernorm.#"},
    {Role::mlp_norm, "post_attention_layernorm.#"},
    {Role::q, ""},
    {Role::k, ""},
    {Role::v, ""},
    {Role::q_norm, ""},
    {Role::k_norm, ""},
    {Role::q_a, "self_attn.#.q_a_proj"},
    {Role::q_a_norm, "self_attn.#.q_a_layernorm"},
    {Role::q_b, "self_attn.#.q_b_proj"},
    {Role::kv_a, "self_attn.#.kv_a_proj_with_mqa"},
    {Role::kv_a_norm, "self_attn.#.kv_a_layernorm"},
    {Role::kv_b, "self_attn.#.kv_b_proj"},
    {Role::output, "self_attn.#.o_proj"},
    {Role::gate, "mlps.#.gate_proj"},
    {Role::up, "mlps.#.up_proj"},
    {Role::down, "mlps.#.down_proj"},
    {Role::router, "mlp.router.classifier"},
    {Role::router_correction, "mlp.router.e_score_correction_bias", "", true},
};

ExpertsPlan read_router(const JsonFields& config) {
  ExpertsPlan experts = read_experts(
      config, {.count = 512,
               .chosen = 12,
               .width = 2048,
               .width_key = general_or(config, "moe_intermediate_size", "expert_ffn_hidden_size"),
               .count_key = "n_routed_experts",
               .chosen_key = "moe_topk"});
  experts.idle =
      config.is_null("zero_expert_num") ? 0 : config.count("zero_expert_num", 256, 0, kMaxLayers);
  experts.aside = experts.correction = true;
  if (config.flag("router_bias", false)) {
    config.faults().unsupported(
        "'router_bias' is true; the reference has such a tensor, but does not add it");
  }
  experts.scale = static_cast<float>(config.number("routed_scaling_factor", 6.0));
  expect_value(config, "zero_expert_type", "identity");
  if (!experts) config.faults().invalid("'n_routed_experts' is 0; experts that do nothing alone");
  ExpertsPlan all = experts;
  all.count = experts.routed();
  check_experts(config, all);
  return experts;
}

// Published files say what is so anyway.
void expect_published(const JsonFields& config) {
  for (const char* key : {"mla_scale_q_lora", "mla_scale_kv_lora"}) {
    if (config.flag(key, true)) continue;
    config.faults().unsupported(config.name(key) + " is false; this family runs with it alone");
  }
  expect_value(config, "attention_method", "MLA");
}

void read(const JsonFields& config, ModelPlan& plan) {
  Shape shape =
      read_latent_shape(config,
                        {.vocabulary = 131072,
                         .hidden = 6144,
                         .intermediate = 12288,
                         .layers = 28,
                         .heads = 64,
                         .context_tokens = 131072,
                         .bos = 1,
                         .eos = 2},
                        plan,
                        {.intermediate = general_or(config, "intermediate_size", "ffn_hidden_size"),
                         .layers = "num_layers"});
  if (shape.layers > kMaxLayers / 2) {
    return config.faults().invalid("'num_layers' is " + std::to_string(shape.layers) +
                                   "; at most " + std::to_string(kMaxLayers / 2));
  }
  shape.layers *= 2;
  read_latent_layers(config, shape, {.eps = 1e-5, .theta = 1e7}, true, plan);
  const LatentAttentionPlan& latent = plan.layers.front().latent;
  if (latent.q_rank == 0) {
    return config.faults().unsupported("'q_lora_rank' is null; this family makes q in two steps");
  }
  const double hidden = shape.hidden;
  const auto of_q = static_cast<float>(std::sqrt(hidden / latent.q_rank));
  const auto of_kv = static_cast<float>(std::sqrt(hidden / latent.kv_rank));
  const ExpertsPlan experts = read_router(config);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    LayerPlan& layer = plan.layers[i];
    layer.attention.scale *= of_q;
    layer.latent.kv_scale = of_kv;
    if (i % 2 == 0) layer.experts = experts;
    layer.joins_aside = i % 2 == 1;
  }
  expect_published(config);
}

}  // namespace longcat_family

const Family kLongcat{.model_type = "longcat_flash",
                      .class_stem = "LongcatFlash",
                      .architecture = "",
                      .read = longcat_family::read,
                      .tensors = {.names = longcat_family::kNames, .halves = true}};

}  // namespace tenon
