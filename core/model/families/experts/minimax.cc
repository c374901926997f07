// MiniMax-M2: experts in every layer, chosen as in DeepSeek-V3 without groups; norms of q and k
// over all heads; part of each head turns.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace minimax_family {

constexpr TensorName kNames[] = {
    {Role::router, "block_sparse_moe.gate"},
    {Role::router_correction, "block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", true},
    {Role::expert_gate, "block_sparse_moe.experts.*.w1"},
    {Role::expert_up, "block_sparse_moe.experts.*.w3"},
    {Role::expert_down, "block_sparse_moe.experts.*.w2"},
};
constexpr ShapeDefaults kShape{.vocabulary = 200064,
                               .hidden = 3072,
                               .intermediate = 1536,
                               .layers = 62,
                               .heads = 48,
                               .kv_heads = 8,
                               .head_dim = 128,
                               .context_tokens = 196608,
                               .bos = 200034,
                               .eos = 200020};

ExpertsPlan read_experts_of(const JsonFields& config, uint32_t width) {
  ExpertsPlan experts = read_experts(config, {.count = 256, .chosen = 8, .width = width});
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = experts.normalised = true;
  expect_value(config, "scoring_func", "sigmoid");
  if (!experts) config.faults().invalid("'num_local_experts' is 0; every layer has experts");
  check_experts(config, experts);
  return experts;
}

// transformers norms q and k whatever the file says; other models of the name might not.
void expect_norms(const JsonFields& config) {
  if (config.flag("use_qk_norm", true)) return;
  config.faults().unsupported("'use_qk_norm' is false; q and k have norms in this family");
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kShape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention.qk_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qk_norm_extent = QkNormExtent::whole;
  layer.experts = read_experts_of(config, shape.intermediate);
  layer.mlp.activation = layer.experts.activation;
  expect_norms(config);
  // Disturbs training alone.
  (void)config.find("router_jitter_noise");
  const double turned = config.count("rotary_dim", shape.head_dim, 2, kMaxWidth);
  plan.ropes = {read_rope(
      config,
      {.theta = 5e6, .partial = PartialRotation::by_key, .partial_factor = turned / shape.head_dim},
      shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["partial_rotary_factor"] = config.value("partial_rotary_factor", 1.0);
  experts_from_gguf(fields, {.count = "num_local_experts", .gating = kGgufSigmoid}, config);
}

}  // namespace minimax_family

const Family kMiniMaxM2{
    .model_type = "minimax_m2",
    .class_stem = "MiniMaxM2",
    .architecture = "minimax-m2",
    .read = minimax_family::read,
    .tensors = {.names = minimax_family::kNames, .part = "block_sparse_moe.", .newer_part = "mlp."},
    .gguf_partial_rotation = true,
    .from_gguf = minimax_family::from_gguf,
    .to_gguf = experts_to_gguf};

}  // namespace tenon
