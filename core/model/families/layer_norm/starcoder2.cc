// StarCoder2: layer norms and a plain MLP in Llama's frame, biases everywhere, or nowhere.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace starcoder2_family {

constexpr TensorName kNames[] = {
    {Role::up, "mlp.c_fc"},
    {Role::down, "mlp.c_proj"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 49152,
                                  .hidden = 3072,
                                  .intermediate = 12288,
                                  .layers = 30,
                                  .heads = 24,
                                  .kv_heads = 2,
                                  .context_tokens = 4096,
                                  .bos = 50256,
                                  .eos = 50256,
                                  .tied = true},
                                 plan);
  const float eps = read_eps(config, "norm_epsilon", 1e-5);
  const bool bias = config.flag("use_bias", true);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = layer.mlp_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = bias;
  layer.mlp.gated = false;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "gelu_pytorch_tanh");
  const char* key = "sliding_window";
  layer.attention.window_tokens = config.has(key) ? config.count(key, 1, 1, kMaxWidth) : 0;
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace starcoder2_family

const Family kStarcoder2{.model_type = "starcoder2",
                         .class_stem = "Starcoder2",
                         .architecture = "starcoder2",
                         .read = starcoder2_family::read,
                         .tensors = {.names = starcoder2_family::kNames},
                         .gguf_windows = GgufWindows::by_family,
                         .gguf_eps_key = "norm_epsilon"};

}  // namespace tenon
