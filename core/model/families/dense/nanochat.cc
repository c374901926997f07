// nanochat: norms without weights everywhere, also of the embeddings and of q and k after they
// turn, which is backward; a plain MLP activated by a squared ReLU; logits are capped.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace nanochat_family {

constexpr TensorName kNames[] = {
    {Role::up, "mlp.fc1"},
    {Role::down, "mlp.fc2"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 50304,
                                  .hidden = 768,
                                  .intermediate = 8192,
                                  .layers = 12,
                                  .heads = 6,
                                  .bos = 0,
                                  .eos = 1},
                                 plan);
  const float eps = read_eps(config, "rms_norm_eps", 1e-6);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = {.kind = NormKind::rms, .eps = eps, .weight = false};
  layer.mlp_norm = plan.embedding_norm = plan.final_norm = layer.attention_norm;
  layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qk_norm_after_rope = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.gated = false;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "relu2");
  const char* cap = "final_logit_softcapping";
  plan.logit_soft_cap =
      config.is_null(cap) ? 0.0f : static_cast<float>(bounded_number(config, cap, 15.0));
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.ropes.front().backward = true;
  plan.layers.assign(shape.layers, layer);
}

}  // namespace nanochat_family

const Family kNanochat{.model_type = "nanochat",
                       .class_stem = "NanoChat",
                       .architecture = "",
                       .read = nanochat_family::read,
                       .tensors = {.names = nanochat_family::kNames}};

}  // namespace tenon
