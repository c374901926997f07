// EXAONE 3 and 3.5: Llama by other names. EXAONE 4: norms after attention and MLP in place of those
// before, norms of q and k, and no rotation in layers that see everything where others do not.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace exaone_family {

constexpr TensorName kExaoneNames[] = {
    {Role::embedding, "transformer.wte"}, {Role::final_norm, "transformer.ln_f"},
    {Role::attention_norm, "ln_1"},       {Role::mlp_norm, "ln_2"},
    {Role::q, "attn.attention.q_proj"},   {Role::k, "attn.attention.k_proj"},
    {Role::v, "attn.attention.v_proj"},   {Role::output, "attn.attention.out_proj"},
    {Role::gate, "mlp.c_fc_0"},           {Role::up, "mlp.c_fc_1"},
    {Role::down, "mlp.c_proj"},
};
constexpr std::pair<std::string_view, std::string_view> kInMemory[] = {
    {"transformer.wte.", "model.embed_tokens."},
    {"transformer.h.", "model.layers."},
    {"transformer.ln_f.", "model.norm."},
    {"transformer.", "model."},
    {".attn.attention.out_proj.", ".self_attn.o_proj."},
    {".attn.attention.", ".self_attn."},
    {".ln_1.", ".input_layernorm."},
    {".ln_2.", ".post_attention_layernorm."},
    {".mlp.c_fc_0.", ".mlp.gate_proj."},
    {".mlp.c_fc_1.", ".mlp.up_proj."},
    {".mlp.c_proj.", ".mlp.down_proj."},
};
constexpr TensorName kExaone4Names[] = {
    {Role::attention_norm, ""},
    {Role::mlp_norm, ""},
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
};

// Both spellings: the published one, and that of transformers 5, which runs it as a Llama. The
// first outweighs.
void read_exaone(const JsonFields& config, ModelPlan& plan) {
  const Shape shape =
      read_shape(config,
                 {.vocabulary = 102400,
                  .intermediate = 14336,
                  .kv_heads = 8,
                  .context_tokens = 4096,
                  .bos = 1,
                  .eos = 361},
                 plan, {.layers = general_or(config, "num_layers", "num_hidden_layers")});
  const char* eps = general_or(config, "layer_norm_epsilon", "rms_norm_eps");
  LayerPlan layer = llama_layer(shape, read_eps(config, eps, 1e-5));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.bias = config.flag("mlp_bias", false);
  layer.mlp.activation = read_activation(config, {"activation_function", "hidden_act"}, "silu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {.theta = 500000.0}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

// Without a window nothing slides, and all layers turn.
void read_exaone4_layers(const JsonFields& config, ModelPlan& plan) {
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  const char* pattern = "sliding_window_pattern";
  if (config.is_null("sliding_window")) {
    (void)config.find(pattern);
    return;
  }
  const bool by_period = sliding.empty() && !config.faults().any();
  const uint32_t period = by_period ? config.count(pattern, 4, 1, kMaxLayers) : 1;
  (void)config.find(pattern);
  for (size_t i = sliding.size(); i < plan.layers.size(); ++i) {
    sliding.push_back((i + 1) % period != 0);
  }
  set_windows(sliding, config.count("sliding_window", 4096, 1, kMaxWidth), plan);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].attention.rope = sliding[i] ? 0 : -1;
  }
}

void read_exaone4(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config, {.vocabulary = 102400, .intermediate = 16384, .kv_heads = 32, .bos = 0, .eos = 2},
      plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  std::swap(layer.attention_norm, layer.attention_post_norm);
  std::swap(layer.mlp_norm, layer.mlp_post_norm);
  plan.final_norm = layer.attention.qk_norm = layer.attention_post_norm;
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  read_exaone4_layers(config, plan);
}

}  // namespace exaone_family

const Family kExaone{.model_type = "exaone",
                     .class_stem = "Exaone",
                     .architecture = "exaone",
                     .read = exaone_family::read_exaone,
                     .tensors = {.names = exaone_family::kExaoneNames,
                                 .base = "transformer.",
                                 .layers = "h.",
                                 .in_memory = exaone_family::kInMemory},
                     .other_stem = "Llama"};
const Family kExaone4{.model_type = "exaone4",
                      .class_stem = "Exaone4",
                      .architecture = "exaone4",
                      .read = exaone_family::read_exaone4,
                      .tensors = {.names = exaone_family::kExaone4Names},
                      .from_gguf = windows_from_gguf};

}  // namespace tenon
