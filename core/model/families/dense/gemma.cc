// Gemma 1 to 3 (their text models) and VaultGemma. Gemma 2 and 3: norms before and behind each
// half, whose weights are stored less one; embeddings scaled by the root of their width; windows in
// most layers.
#include "core/model/families/reading/gemma.h"

#include <cmath>

#include "core/model/families/families.h"

namespace tenon {
namespace gemma_family {

constexpr TensorName kNames[] = {
    {Role::attention_post_norm, "post_attention_layernorm"},
    {Role::mlp_norm, "pre_feedforward_layernorm"},
    {Role::mlp_post_norm, "post_feedforward_layernorm"},
};

constexpr ShapeDefaults kGemma2Shape{.vocabulary = 256000,
                                     .hidden = 2304,
                                     .intermediate = 9216,
                                     .layers = 26,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .head_dim = 256,
                                     .context_tokens = 8192,
                                     .bos = 2,
                                     .eos = 1,
                                     .tied = true};
constexpr ShapeDefaults kGemma3Shape{.vocabulary = 262208,
                                     .hidden = 2304,
                                     .intermediate = 9216,
                                     .layers = 26,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .head_dim = 256,
                                     .context_tokens = 131072,
                                     .bos = 2,
                                     .eos = 1,
                                     .tied = true};

// VaultGemma is Gemma 2 without norms after the halves.
constexpr TensorName kVaultNames[] = {{Role::mlp_norm, "pre_feedforward_layernorm"}};

constexpr ShapeDefaults kGemmaShape{.vocabulary = 256000,
                                    .hidden = 3072,
                                    .intermediate = 24576,
                                    .layers = 28,
                                    .heads = 16,
                                    .kv_heads = 16,
                                    .head_dim = 256,
                                    .context_tokens = 8192,
                                    .bos = 2,
                                    .eos = 1,
                                    .tied = true};

LayerPlan read_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention_norm.plus_one = true;
  layer.attention_post_norm = layer.mlp_norm = layer.mlp_post_norm = layer.attention_norm;
  plan.final_norm = layer.attention_norm;
  // hidden_act, where it stands beside hidden_activation, is overlooked.
  layer.mlp.activation = read_activation(config, {"hidden_activation"}, "gelu_pytorch_tanh");
  (void)config.find("hidden_act");
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  const double scalar = config.number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0.0)) config.faults().invalid("'query_pre_attn_scalar' must be above 0");
  layer.attention.scale = static_cast<float>(1.0 / std::sqrt(scalar));
  plan.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(shape.hidden)));
  return layer;
}

// Every `period`-th layer sees everything, the others a window.
void read_windows(const JsonFields& config, uint32_t period, ModelPlan& plan) {
  const uint32_t window =
      config.is_null("sliding_window") ? 0 : config.count("sliding_window", 4096, 1, kMaxWidth);
  std::vector<bool> sliding = read_sliding_layers(config, plan.layers.size());
  for (size_t i = sliding.size(); i < plan.layers.size(); ++i) {
    sliding.push_back((i + 1) % period != 0);
  }
  set_windows(sliding, window, plan);
  for (size_t i = 0; i < plan.layers.size() && plan.ropes.size() > 1; ++i) {
    plan.layers[i].attention.rope = sliding[i] ? 1 : 0;
  }
}

void read_gemma2(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kGemma2Shape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  layer.attention.soft_cap = read_cap(config, "attn_logit_softcapping", 50.0);
  plan.logit_soft_cap = read_cap(config, "final_logit_softcapping", 30.0);
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
  read_windows(config, 2, plan);
}

void read_vault(const JsonFields& config, ModelPlan& plan) {
  read_gemma2(config, plan);
  for (LayerPlan& layer : plan.layers) layer.attention_post_norm = layer.mlp_post_norm = {};
}

void read_gemma(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kGemmaShape, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-6));
  layer.attention_norm.plus_one = true;
  layer.mlp_norm = plan.final_norm = layer.attention_norm;
  // Published files say "gelu" where they mean its approximation; hidden_activation is overlooked.
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "gelu_pytorch_tanh");
  if (layer.mlp.activation == Activation::gelu) layer.mlp.activation = Activation::gelu_tanh;
  (void)config.find("hidden_activation");
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  plan.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(shape.hidden)));
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void read_gemma3(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, kGemma3Shape, plan);
  LayerPlan layer = read_layer(config, shape, plan);
  layer.attention.qk_norm = layer.attention_norm;
  // transformers reads the first of these and overlooks it.
  (void)config.find("attn_logit_softcapping");
  plan.logit_soft_cap = read_cap(config, "final_logit_softcapping", 0.0);
  read_gemma_ropes(config, shape.head_dim, plan);
  plan.layers.assign(shape.layers, layer);
  read_windows(config, config.count("sliding_window_pattern", 6, 1, kMaxLayers), plan);
}

// The scale is not in the file: it follows from the size of a head, but for the 27B models.
void scale_from_gguf(const GgufFields& fields, uint32_t layers_of_27b,
                     nlohmann::ordered_json& config) {
  const double head_dim = config["head_dim"].get<uint32_t>();
  const double of_heads =
      config["hidden_size"].get<double>() / config["num_attention_heads"].get<uint32_t>();
  const bool is_27b = config["num_hidden_layers"].get<uint32_t>() == layers_of_27b;
  config["query_pre_attn_scalar"] = is_27b ? of_heads : head_dim;
  if (fields.has(".attention.scale")) {
    const double scale = fields.number(".attention.scale", 1.0, 1e-6, 1e6);
    config["query_pre_attn_scalar"] = 1.0 / (scale * scale);
  }
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config.erase("use_sliding_window");
}

void gemma2_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  scale_from_gguf(fields, 46, config);
  config["attn_logit_softcapping"] = cap_from_gguf(fields, ".attn_logit_softcapping", 50.0);
  config["final_logit_softcapping"] = cap_from_gguf(fields, ".final_logit_softcapping", 30.0);
}

void gemma3_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  scale_from_gguf(fields, 62, config);
  config["rope_local_base_freq"] = fields.number(".rope.freq_base_swa", 1e4, 1e-6, 1e30);
  config["final_logit_softcapping"] = cap_from_gguf(fields, ".final_logit_softcapping", 0.0);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const SelfAttentionPlan& attention = plan.layers.front().attention;
  out.add_real(architecture + ".attention.scale", attention.scale);
  if (attention.soft_cap > 0 || architecture == "gemma2") {
    out.add_real(architecture + ".attn_logit_softcapping", attention.soft_cap);
  }
  out.add_real(architecture + ".final_logit_softcapping", plan.logit_soft_cap);
  if (plan.ropes.size() > 1) {
    out.add_real(architecture + ".rope.freq_base_swa", static_cast<float>(plan.ropes[1].theta));
  }
}

}  // namespace gemma_family

const Family kGemma{.model_type = "gemma",
                    .class_stem = "Gemma",
                    .architecture = "gemma",
                    .read = gemma_family::read_gemma,
                    .gguf_adds_one = true};
const Family kVaultGemma{.model_type = "vaultgemma",
                         .class_stem = "VaultGemma",
                         .architecture = "",
                         .read = gemma_family::read_vault,
                         .tensors = {.names = gemma_family::kVaultNames}};
const Family kGemma2{.model_type = "gemma2",
                     .class_stem = "Gemma2",
                     .architecture = "gemma2",
                     .read = gemma_family::read_gemma2,
                     .tensors = {.names = gemma_family::kNames},
                     .gguf_adds_one = true,
                     .gguf_windows = GgufWindows::by_family,
                     .from_gguf = gemma_family::gemma2_from_gguf,
                     .to_gguf = gemma_family::to_gguf};
const Family kGemma3{.model_type = "gemma3_text",
                     .class_stem = "Gemma3",
                     .architecture = "gemma3",
                     .read = gemma_family::read_gemma3,
                     .tensors = {.names = gemma_family::kNames},
                     .gguf_adds_one = true,
                     .gguf_windows = GgufWindows::by_family,
                     .gguf_theta = 1e6,
                     .from_gguf = gemma_family::gemma3_from_gguf,
                     .to_gguf = gemma_family::to_gguf};

}  // namespace tenon
