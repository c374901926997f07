// GPT-2 and GPT-NeoX (Pythia): layer norms with biases, plain MLPs, q, k and v in one matrix.
#include <cmath>

#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace gpt_family {

constexpr TensorName kGpt2Names[] = {
    {Role::embedding, "transformer.wte"},
    {Role::positions, "transformer.wpe"},
    {Role::final_norm, "transformer.ln_f"},
    {Role::attention_norm, "ln_1"},
    {Role::qkv, "attn.c_attn"},
    {Role::output, "attn.c_proj"},
    {Role::mlp_norm, "ln_2"},
    {Role::up, "mlp.c_fc"},
    {Role::down, "mlp.c_proj"},
};
constexpr TensorName kNeoxNames[] = {
    {Role::embedding, "gpt_neox.embed_in"},
    {Role::final_norm, "gpt_neox.final_layer_norm"},
    {Role::head, "embed_out"},
    {Role::qkv, "attention.query_key_value"},
    {Role::output, "attention.dense"},
    {Role::up, "mlp.dense_h_to_4h"},
    {Role::down, "mlp.dense_4h_to_h"},
};

LayerPlan gpt_layer(const Shape& shape, float eps) {
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = layer.mlp_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  layer.mlp.gated = false;
  layer.mlp.bias = true;
  return layer;
}

// The general names of GPT-2's keys are read as well, as in transformers.
ShapeKeys gpt2_keys(const JsonFields& config) {
  const auto either = [&](const char* own, const char* general) {
    return general_or(config, general, own);
  };
  return {.hidden = either("n_embd", "hidden_size"),
          .intermediate = "n_inner",
          .layers = either("n_layer", "num_hidden_layers"),
          .heads = either("n_head", "num_attention_heads"),
          .kv_heads = nullptr,
          .head_dim = nullptr,
          .context_tokens = either("n_positions", "max_position_embeddings")};
}

void read_gpt2(const JsonFields& config, ModelPlan& plan) {
  const ShapeKeys keys = gpt2_keys(config);
  const Shape shape = read_shape(config,
                                 {.vocabulary = 50257,
                                  .hidden = 768,
                                  .intermediate = 4 * config.count(keys.hidden, 768, 1, 1u << 28),
                                  .layers = 12,
                                  .heads = 12,
                                  .context_tokens = 1024,
                                  .bos = 50256,
                                  .eos = 50256,
                                  .tied = true,
                                  .rotates = false},
                                 plan, keys);
  LayerPlan layer = gpt_layer(shape, read_eps(config, "layer_norm_epsilon", 1e-5));
  layer.attention.qkv_bias = layer.attention.output_bias = true;
  layer.attention.rope = -1;
  layer.mlp.activation = read_activation(config, {"activation_function"}, "gelu_new");
  if (!config.flag("scale_attn_weights", true)) layer.attention.scale = 1.0f;
  plan.learned_positions = true;
  plan.final_norm = layer.attention_norm;
  plan.layers.assign(shape.layers, layer);
  // Guards against overflow in f16 and changes nothing else.
  (void)config.flag("reorder_and_upcast_attn", false);
  if (!config.flag("scale_attn_by_inverse_layer_idx", false)) return;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    plan.layers[i].attention.scale /= static_cast<float>(i + 1);
  }
}

void read_neox(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 50432,
                                  .hidden = 6144,
                                  .intermediate = 24576,
                                  .layers = 44,
                                  .heads = 64,
                                  .context_tokens = 2048,
                                  .bos = 0,
                                  .eos = 2},
                                 plan, {.kv_heads = nullptr, .head_dim = nullptr});
  // The reference turns a part of heads of that size, and attends with heads of their own.
  if (config.count("head_dim", shape.head_dim, 1, kMaxWidth) != shape.head_dim) {
    config.faults().unsupported(config.name("head_dim") + " is not " +
                                std::to_string(shape.head_dim) +
                                ", the size of heads that fill 'hidden_size'");
  }
  LayerPlan layer = gpt_layer(shape, read_eps(config, "layer_norm_eps", 1e-5));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", true);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "gelu");
  layer.parallel = config.flag("use_parallel_residual", true);
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config,
                          {.partial = PartialRotation::by_key,
                           .partial_factor = 0.25,
                           .partial_key = "rotary_pct",
                           .theta_key = "rotary_emb_base"},
                          shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void gpt2_from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  config["n_inner"] = config["intermediate_size"];
  for (const char* key :
       {"intermediate_size", "rope_theta", "rope_scaling", "num_key_value_heads", "head_dim"}) {
    config.erase(key);
  }
}

void neox_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["use_parallel_residual"] = fields.flag(".use_parallel_residual", true);
  config["rotary_emb_base"] = config["rope_theta"];
  config["rotary_pct"] = config.value("partial_rotary_factor", 1.0);
  for (const char* key :
       {"rope_theta", "partial_rotary_factor", "num_key_value_heads", "head_dim"}) {
    config.erase(key);
  }
}

void neox_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  out.add_flag(architecture + ".use_parallel_residual", plan.layers.front().parallel);
}

}  // namespace gpt_family

const Family kGpt2{.model_type = "gpt2",
                   .class_stem = "GPT2",
                   .architecture = "gpt2",
                   .read = gpt_family::read_gpt2,
                   .tensors = {.names = gpt_family::kGpt2Names,
                               .base = "transformer.",
                               .layers = "h.",
                               .layout = FolderLayout::transposed},
                   .gguf_eps_key = "layer_norm_epsilon",
                   .from_gguf = gpt_family::gpt2_from_gguf};
const Family kGptNeox{.model_type = "gpt_neox",
                      .class_stem = "GPTNeoX",
                      .architecture = "gptneox",
                      .read = gpt_family::read_neox,
                      .tensors = {.names = gpt_family::kNeoxNames,
                                  .base = "gpt_neox.",
                                  .layout = FolderLayout::per_head,
                                  .part = "embed_out",
                                  .newer_part = "lm_head"},
                      .gguf_partial_rotation = true,
                      .gguf_eps_key = "layer_norm_eps",
                      .from_gguf = gpt_family::neox_from_gguf,
                      .to_gguf = gpt_family::neox_to_gguf};

}  // namespace tenon
