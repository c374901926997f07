// Doge: Llama's layer with norms of q and k, numbers that are added to scores and follow from V,
// and weights of what a half is added to.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace doge_family {

constexpr TensorName kNames[] = {
    {Role::mask_in, "self_attn.dt_proj"},
    {Role::mask_rate, "self_attn.A"},
    {Role::attention_residual, "input_residual"},
    {Role::mlp_residual, "post_attention_residual"},
};

// With experts, the reference takes a token's scores from other tokens' rows in prompts, and from
// its own where it goes on token by token.
void refuse_experts(const JsonFields& config) {
  for (const char* key : {"num_experts", "num_experts_per_tok", "norm_topk_prob"}) {
    (void)config.find(key);
  }
  if (!config.flag("is_moe", false)) return;
  config.faults().unsupported(
      "'is_moe' is true; Doge's experts, which a prompt's tokens choose for each other, are not "
      "built");
}

// Beyond so many tokens, the highest of these numbers decide what a token sees.
void limit_context(const JsonFields& config, uint32_t window, ModelPlan& plan) {
  const uint32_t kept = config.count("keep_window_size", 2048, 1, kMaxWidth);
  if (window == 0 || window > kept) plan.context_tokens = std::min(plan.context_tokens, kept);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 32768,
                                  .hidden = 1024,
                                  .intermediate = 2048,
                                  .heads = 8,
                                  .context_tokens = 2048},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  plan.final_norm = layer.attention.qk_norm = layer.attention_norm;
  layer.attention.learned_mask = layer.weighs_stream = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  if (config.has("sliding_window")) {
    layer.attention.window_tokens = config.count("sliding_window", 1, 1, kMaxWidth);
  }
  refuse_experts(config);
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  limit_context(config, layer.attention.window_tokens, plan);
  plan.layers.assign(shape.layers, layer);
}

}  // namespace doge_family

const Family kDoge{.model_type = "doge",
                   .class_stem = "Doge",
                   .architecture = "",
                   .read = doge_family::read,
                   .tensors = {.names = doge_family::kNames}};

}  // namespace tenon
