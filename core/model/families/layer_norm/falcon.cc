// Falcon: 7B (parallel halves behind one norm, one KV head), 40B and later (a norm for each half,
// KV heads that several q share), and the serial one; q, k and v of a KV head side by side.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace falcon_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "transformer.word_embeddings"},
    {Role::final_norm, "transformer.ln_f"},
    {Role::qkv, "self_attention.query_key_value"},
    {Role::output, "self_attention.dense"},
    {Role::up, "mlp.dense_h_to_4h"},
    {Role::down, "mlp.dense_4h_to_h"},
};
constexpr TensorName kTwoNormNames[] = {
    {Role::attention_norm, "ln_attn", "attn_norm_2"},
    {Role::mlp_norm, "ln_mlp", "attn_norm"},
};

// Which norms a layer has, where its halves run in parallel. What transformers itself cannot run
// is refused.
void read_norms(const JsonFields& config, bool grouped, LayerPlan& layer) {
  layer.parallel = config.truth("parallel_attn", true);
  const char* key = "num_ln_in_parallel_attn";
  const uint32_t norms = config.count(key, grouped ? 2 : 1, 1, 2);
  if (layer.parallel && norms == 1) layer.mlp_norm = {};
  if (grouped && !layer.parallel) {
    config.faults().unsupported(
        "'parallel_attn' is false with 'new_decoder_architecture', which always runs in parallel");
  }
  if (!grouped && layer.parallel && norms == 2) {
    config.faults().unsupported(config.name(key) +
                                " is 2 without 'new_decoder_architecture'; expected 1");
  }
}

// The KV heads that count.
uint32_t read_kv_heads(const JsonFields& config, bool grouped, uint32_t heads) {
  const uint32_t given = config.count("num_kv_heads", heads, 1, kMaxWidth);
  const bool single = config.truth("multi_query", true);
  if (grouped && heads % given == 0) return given;
  if (grouped) {
    config.faults().invalid("'num_attention_heads' " + std::to_string(heads) +
                            " is not a multiple of 'num_kv_heads' " + std::to_string(given));
  }
  return single ? 1 : heads;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const char* hidden = general_or(config, "n_embed", "hidden_size");
  Shape shape = read_shape(config,
                           {.vocabulary = 65024,
                            .hidden = 4544,
                            .intermediate = 4 * config.count(hidden, 4544, 1, 1u << 28),
                            .layers = 32,
                            .heads = 71,
                            .bos = 11,
                            .eos = 11,
                            .tied = true},
                           plan,
                           {.hidden = hidden,
                            .intermediate = "ffn_hidden_size",
                            .kv_heads = nullptr,
                            .head_dim = nullptr});
  const bool grouped = config.flag("new_decoder_architecture", false);
  shape.kv_heads = read_kv_heads(config, grouped, shape.heads);
  const float eps = read_eps(config, "layer_norm_epsilon", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = layer.mlp_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  read_norms(config, grouped, layer);
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias =
      config.flag("bias", false);
  layer.mlp.gated = false;
  layer.mlp.activation = read_activation(config, {"activation"}, "gelu");
  if (config.flag("alibi", false)) {
    config.faults().unsupported(
        "'alibi' is true; the reference rounds Falcon's position biases to bf16 at each position, "
        "so that they are no function of the distance, and this is not built");
  }
  plan.final_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const bool two_norms = fields.has_tensor("blk.0.attn_norm_2.weight");
  const bool serial = fields.has_tensor("blk.0.ffn_norm.weight");
  const uint32_t kv_heads = config["num_key_value_heads"].get<uint32_t>();
  config["num_kv_heads"] = kv_heads;
  config["new_decoder_architecture"] = !serial && (two_norms || kv_heads != 1);
  config["multi_query"] = kv_heads == 1;
  config["parallel_attn"] = !serial;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
  config["bias"] = config["attention_bias"];
  config["ffn_hidden_size"] = config["intermediate_size"];
  for (const char* key :
       {"num_key_value_heads", "head_dim", "intermediate_size", "attention_bias", "mlp_bias"}) {
    config.erase(key);
  }
}

}  // namespace falcon_family

const Family kFalcon{.model_type = "falcon",
                     .class_stem = "Falcon",
                     .architecture = "falcon",
                     .read = falcon_family::read,
                     .tensors = {.names = falcon_family::kNames,
                                 .two_norm_names = falcon_family::kTwoNormNames,
                                 .base = "transformer.",
                                 .layers = "h.",
                                 .layout = FolderLayout::per_head},
                     .gguf_eps_key = "layer_norm_epsilon",
                     .from_gguf = falcon_family::from_gguf};

}  // namespace tenon
