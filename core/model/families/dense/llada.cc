// LLaDA (arXiv:2502.09992): Llama's layer under the keys and names of the first OLMo, whose tokens
// see the whole text. It generates by diffusion: some tokens are masks, and the logits of their
// rows say what belongs in their place.
#include <cmath>

#include "core/base/quote.h"
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace llada_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "model.transformer.wte"},
    {Role::final_norm, "model.transformer.ln_f"},
    {Role::head, "model.transformer.ff_out"},
    {Role::attention_norm, "attn_norm"},
    {Role::q, "q_proj"},
    {Role::k, "k_proj"},
    {Role::v, "v_proj"},
    {Role::q_norm, "q_norm"},
    {Role::k_norm, "k_norm"},
    {Role::output, "attn_out"},
    {Role::mlp_norm, "ff_norm"},
    {Role::gate, "ff_proj"},
    {Role::up, "up_proj"},
    {Role::down, "ff_out"},
};

// Where the reference's own defaults are what its code refuses, those of LLaDA-8B count.
constexpr ShapeDefaults kDefaults{.vocabulary = 126464,
                                  .hidden = 4096,
                                  .intermediate = 12288,
                                  .layers = 32,
                                  .heads = 32,
                                  .context_tokens = 4096,
                                  .eos = 126081};
constexpr TokenId kMaskToken = 126336;
constexpr ShapeKeys kKeys{.hidden = "d_model",
                          .intermediate = "mlp_hidden_size",
                          .layers = "n_layers",
                          .heads = "n_heads",
                          .kv_heads = "n_kv_heads",
                          .head_dim = nullptr,
                          .context_tokens = "max_sequence_length"};

// Settings of training, and of how the reference computes.
constexpr const char* kHarmless[] = {
    "alibi_bias_max",   "embedding_dropout",
    "flash_attention",  "init_cutoff_factor",
    "init_device",      "init_fn",
    "init_std",         "precision",
    "residual_dropout", "rope_full_precision",
    "mlp_ratio",        "attention_layer_norm_with_affine",
};

// `key` must be what is built, if it is there.
void expect_text(const JsonFields& config, const char* key, std::string_view built) {
  const std::string value = config.text(key, built);
  if (value == built) return;
  config.faults().unsupported(config.name(key) + " is " + in_quotes(value) +
                              ", which is not built; there is " + in_quotes(built));
}
void expect_flag(const JsonFields& config, const char* key, bool built, std::string_view why) {
  if (config.flag(key, built) == built) return;
  config.faults().unsupported(config.name(key) + " is " + (built ? "false" : "true") + "; " +
                              std::string(why));
}

// Only whole heads, and as many KV heads as one of the two keys says.
void read_kv_heads(const JsonFields& config, Shape& shape) {
  if (!config.has("multi_query_attention")) return;
  const uint32_t heads = config.flag("multi_query_attention", false) ? 1 : shape.heads;
  if (config.has("n_kv_heads") && shape.kv_heads != heads) {
    config.faults().invalid("'n_kv_heads' is " + std::to_string(shape.kv_heads) +
                            ", but 'multi_query_attention' makes it " + std::to_string(heads) +
                            "; leave one of them out");
  }
  shape.kv_heads = heads;
}

// The embedding may have more rows than the vocabulary has tokens; logits have as many.
void read_rows(const JsonFields& config, ModelPlan& plan) {
  const uint32_t rows = config.count("embedding_size", plan.vocabulary, 1, kMaxWidth);
  if (rows < plan.vocabulary) {
    config.faults().invalid("'embedding_size' is " + std::to_string(rows) +
                            ", less than 'vocab_size', " + std::to_string(plan.vocabulary));
  }
  plan.vocabulary = rows;
}

void read_mask(const JsonFields& config, ModelPlan& plan) {
  std::vector<TokenId> usual;
  if (static_cast<uint32_t>(kMaskToken) < plan.vocabulary) usual = {kMaskToken};
  const std::vector<TokenId> ids = config.token_ids("mask_token_id", usual, plan.vocabulary);
  if (ids.size() == 1) {
    plan.mask_token = ids.front();
  } else if (!config.faults().any()) {
    config.faults().invalid("'mask_token_id' is " +
                            std::string(ids.empty() ? "missing" : "a list") +
                            "; expected the id of the token that stands for what is not known yet");
  }
}

NormPlan read_norm(const JsonFields& config, bool biases) {
  const std::string type = config.text("layer_norm_type", "rms");
  const float eps = read_eps(config, "rms_norm_eps", 1e-5);
  const bool affine = config.flag("layer_norm_with_affine", true);
  const bool bias = config.flag("bias_for_layer_norm", biases) && affine;
  if (type == "default" || type == "low_precision") {
    return {.kind = NormKind::layer, .eps = 1e-5f, .bias = bias, .weight = affine};
  }
  if (type != "rms" && type != "gemma_rms") {
    config.faults().unsupported("'layer_norm_type' is " + in_quotes(type) +
                                ", which is not built; there are default, low_precision, rms and "
                                "gemma_rms");
  }
  if (bias) {
    config.faults().unsupported(
        "'bias_for_layer_norm' or 'include_bias' is true; RMS norms with biases are not built");
  }
  if (type == "gemma_rms" && !affine) {
    config.faults().unsupported(
        "'layer_norm_with_affine' is false with 'gemma_rms'; that is not "
        "built");
  }
  return {.kind = NormKind::rms, .eps = eps, .plus_one = type == "gemma_rms", .weight = affine};
}

ShapeDefaults defaults_of(const JsonFields& config) {
  ShapeDefaults defaults = kDefaults;
  if (config.has("mlp_ratio") && !config.has("mlp_hidden_size")) {
    defaults.intermediate = config.count("mlp_ratio", 4, 1, 64) *
                            config.count("d_model", kDefaults.hidden, 1, 1u << 25);
  }
  return defaults;
}

void read(const JsonFields& config, ModelPlan& plan) {
  Shape shape = read_shape(config, defaults_of(config), plan, kKeys);
  read_kv_heads(config, shape);
  read_rows(config, plan);
  read_mask(config, plan);
  expect_text(config, "block_type", "llama");
  expect_flag(config, "rope", true, "models of this family have rotary positions");
  expect_flag(config, "alibi", false, "position biases are not built for it");
  if (config.count("block_group_size", 1, 1, kMaxLayers) != 1) {
    config.faults().unsupported("'block_group_size' is above 1; groups of blocks are not built");
  }
  for (const char* key : kHarmless) (void)config.find(key);
  const bool biases = config.flag("include_bias", false);
  const NormPlan norm = read_norm(config, biases);
  LayerPlan layer = llama_layer(shape, norm.eps);
  layer.attention_norm = layer.mlp_norm = plan.final_norm = norm;
  layer.attention.qkv_bias = config.flag("include_qkv_bias", false) || biases;
  layer.attention.output_bias = layer.mlp.bias = biases;
  if (config.flag("attention_layer_norm", false)) {
    expect_flag(config, "attention_layer_norm_with_affine", norm.weight,
                "norms of q and k unlike those of the layers are not built");
    layer.attention.qk_norm = norm;
    layer.attention.qk_norm_extent = QkNormExtent::whole;
  }
  layer.mlp.activation = read_activation(config, {"activation_type"}, "silu");
  plan.tied_embeddings = config.flag("weight_tying", true);
  plan.head_bias = biases && !plan.tied_embeddings;
  const double width = std::sqrt(static_cast<double>(shape.hidden));
  if (config.flag("input_emb_norm", false)) plan.embedding_scale = static_cast<float>(width);
  if (config.flag("scale_logits", false)) plan.logit_scale = static_cast<float>(1.0 / width);
  plan.ropes = {plain_rope(config, {}, shape.head_dim)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json&) {
  fields.faults().unsupported(
      "GGUF files of diffusion models are not built; open the model's folder");
}

}  // namespace llada_family

const Family kLlada{
    .model_type = "llada",
    .class_stem = "LLaDA",
    .architecture = "",
    .read = llada_family::read,
    .tensors = {.names = llada_family::kNames, .base = "model.transformer.", .layers = "blocks."},
    .from_gguf = llada_family::from_gguf};

}  // namespace tenon
