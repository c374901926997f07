// MiniMax-01: lightning attention in most layers and plain attention in the others; halves are
// added to what their norms make, with factors on both; Mixtral's experts.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/recurrence.h"

namespace tenon {
namespace minimax_text_family {

// As transformers holds experts in memory, they are one tensor in `mlp`; files have Mixtral's
// names.
constexpr TensorName kNames[] = {
    {Role::router, "block_sparse_moe.gate"},
    {Role::expert_gate, "block_sparse_moe.experts.*.w1"},
    {Role::expert_up, "block_sparse_moe.experts.*.w3"},
    {Role::expert_down, "block_sparse_moe.experts.*.w2"},
    {Role::ssm_in, "self_attn.qkv_proj"},
    {Role::ssm_in_gate, "self_attn.output_gate"},
    {Role::ssm_rate, "self_attn.slope_rate", "", true},
    {Role::ssm_norm, "self_attn.norm"},
    {Role::ssm_out, "self_attn.out_proj"},
};

// The norm's epsilon is transformers' usual one, whatever the config says.
RecurrentPlan lightning_of(const Shape& shape, float beta) {
  RecurrentPlan made{.kind = Recurrence::lightning,
                     .heads = shape.heads,
                     .head_dim = shape.head_dim,
                     .state = shape.head_dim,
                     .groups = shape.heads,
                     .width = 1,
                     .sigmoid_gate = true,
                     .gate_norm = {.kind = NormKind::rms, .eps = 1e-6f},
                     .norm_first = true};
  made.scales.output = beta;
  return made;
}

// [layers] whether each attends; by default every other, from the first.
std::vector<bool> read_full(const JsonFields& config, uint32_t layers) {
  std::vector<bool> full = read_attending(config, "layer_types", layers);
  for (uint32_t i = 0; i < layers && !config.has("layer_types"); ++i) full.push_back(i % 2 == 0);
  return full;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config, {.intermediate = 14336, .kv_heads = 8, .context_tokens = 131072, .bos = 1, .eos = 2},
      plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  plan.final_norm = layer.attention_norm;
  layer.experts = read_experts(config, {.count = 8, .chosen = 2, .width = shape.intermediate});
  layer.experts.normalised = true;
  layer.experts.sum_more = 0.0f;
  layer.mlp.activation = layer.experts.activation;
  const auto beta = [&](const char* key) { return read_multiplier(config, key); };
  layer.experts.scale = beta("mlp_beta_factor");
  layer.mlp_keeps = beta("mlp_alpha_factor");
  layer.attention.output_scale = beta("full_attn_beta_factor");
  layer.mixer_keeps = beta("full_attn_alpha_factor");
  if (!layer.experts) config.faults().invalid("'num_local_experts' is 0; every layer has experts");
  check_experts(config, layer.experts);
  if (layer.mlp.activation != Activation::silu) {
    config.faults().unsupported(
        "'hidden_act' is not \"silu\"; q, k and v of linear attention have kernels for that alone");
  }
  plan.ropes = {read_rope(config, {.theta = 1e6}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  const char* window = "sliding_window";
  const uint32_t tokens = config.has(window) ? config.count(window, 1, 1, kMaxWidth) : 0;
  const std::vector<bool> full = read_full(config, shape.layers);
  const RecurrentPlan lightning = lightning_of(shape, beta("linear_attn_beta_factor"));
  const float keeps = beta("linear_attn_alpha_factor");
  for (size_t i = 0; i < full.size(); ++i) {
    LayerPlan& own = plan.layers[i];
    own.attention.window_tokens = tokens;
    if (full[i]) continue;
    replace_attention(lightning, own);
    own.mixer_keeps = keeps;
  }
  // Of how prompts are cut into blocks, and of training.
  for (const char* key : {"block_size", "router_jitter_noise", "router_aux_loss_coef"}) {
    (void)config.find(key);
  }
}

}  // namespace minimax_text_family

const Family kMiniMax{
    .model_type = "minimax",
    .class_stem = "MiniMax",
    .architecture = "",
    .read = minimax_text_family::read,
    .tensors = {
        .names = minimax_text_family::kNames, .part = "block_sparse_moe.", .newer_part = "mlp."}};

}  // namespace tenon
