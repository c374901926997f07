// GLM-4.5 to 4.7 and Solar Open: attention of Llama's kind, half of each head turning, and
// DeepSeek-V3's router. GLM has dense layers first and may norm q and k.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace glm_moe_family {

constexpr TensorName kNames[] = {
    {Role::mlp_norm, "post_attention_layernorm", "post_attention_norm"},
};
constexpr ShapeDefaults kGlmShape{.vocabulary = 151552,
                                  .intermediate = 10944,
                                  .layers = 46,
                                  .heads = 96,
                                  .kv_heads = 8,
                                  .context_tokens = 131072};
constexpr ShapeDefaults kSolarShape{.vocabulary = 196608,
                                    .layers = 48,
                                    .heads = 64,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .context_tokens = 131072};
constexpr ExpertDefaults kGlmExperts{.count = 128,
                                     .chosen = 8,
                                     .width = 1408,
                                     .width_key = "moe_intermediate_size",
                                     .count_key = "n_routed_experts"};

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.attention.qkv_bias = config.flag("attention_bias", false);
  plan.final_norm = layer.attention_norm;
  return layer;
}

void read_glm(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kGlmShape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  if (config.flag("use_qk_norm", false)) layer.attention.qk_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {.partial = PartialRotation::by_key, .partial_factor = 0.5},
                          shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  set_checked_experts(config, read_sparse_after(config, 1, shape.layers),
                      read_sigmoid_router(config, {.experts = kGlmExperts}), plan);
}

void read_solar(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kSolarShape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  ExpertDefaults defaults = kGlmExperts;
  defaults.width = 1280;
  layer.experts = read_sigmoid_router(config, {.experts = defaults});
  if (!layer.experts) config.faults().invalid("'n_routed_experts' is 0; every layer has experts");
  check_experts(config, layer.experts);
  plan.ropes = {read_rope(config, {.theta = 1e6, .partial = PartialRotation::by_key},
                          shape.head_dim, plan.context_tokens)};
  expect_whole_heads(config, plan.ropes.front(), shape.head_dim);
  plan.layers.assign(shape.layers, layer);
}

// Files of both have one name; those of Solar have no dense layers, and GLM's reading fits them.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["use_qk_norm"] = fields.has_tensor("blk.0.attn_q_norm.weight");
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
  router_from_gguf(fields, kGgufSigmoid, config);
}

}  // namespace glm_moe_family

const Family kGlm4Moe{.model_type = "glm4_moe",
                      .class_stem = "Glm4Moe",
                      .architecture = "glm4moe",
                      .read = glm_moe_family::read_glm,
                      .tensors = {.names = glm_moe_family::kNames},
                      .gguf_partial_rotation = true,
                      .from_gguf = glm_moe_family::from_gguf,
                      .to_gguf = router_to_gguf};
const Family kSolarOpen{.model_type = "solar_open",
                        .class_stem = "SolarOpen",
                        .architecture = "glm4moe",
                        .read = glm_moe_family::read_solar,
                        .tensors = {.names = glm_moe_family::kNames},
                        .gguf_partial_rotation = true,
                        .from_gguf = glm_moe_family::from_gguf,
                        .to_gguf = router_to_gguf};

}  // namespace tenon
