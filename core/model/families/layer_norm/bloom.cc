// BLOOM: layer norms, one of them on the embeddings, q, k and v of a head side by side, ALiBi.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace bloom_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "transformer.word_embeddings"},
    {Role::embedding_norm, "transformer.word_embeddings_layernorm"},
    {Role::final_norm, "transformer.ln_f"},
    {Role::qkv, "self_attention.query_key_value"},
    {Role::output, "self_attention.dense"},
    {Role::up, "mlp.dense_h_to_4h"},
    {Role::down, "mlp.dense_4h_to_h"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  // Old files have 'n_embed', which counts where both stand. Positions have no end; files name the
  // length of the texts that the model was trained on.
  const ShapeKeys keys{.hidden = general_or(config, "n_embed", "hidden_size"),
                       .intermediate = nullptr,
                       .layers = general_or(config, "num_hidden_layers", "n_layer"),
                       .heads = general_or(config, "num_attention_heads", "n_head"),
                       .kv_heads = nullptr,
                       .head_dim = nullptr,
                       .context_tokens = "seq_length"};
  const Shape shape = read_shape(config,
                                 {.vocabulary = 250880,
                                  .hidden = 64,
                                  .intermediate = 4 * config.count(keys.hidden, 64, 1, 1u << 28),
                                  .layers = 2,
                                  .heads = 8,
                                  .bos = 1,
                                  .eos = 2,
                                  .tied = true,
                                  .rotates = false},
                                 plan, keys);
  const float eps = read_eps(config, "layer_norm_epsilon", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = {.kind = NormKind::layer, .eps = eps, .bias = true};
  layer.mlp_norm = plan.embedding_norm = plan.final_norm = layer.attention_norm;
  use_alibi(config, keys.heads, 8.0f, layer.attention);
  layer.attention.qkv_bias = layer.attention.output_bias = layer.mlp.bias = true;
  layer.mlp.gated = false;
  layer.mlp.activation = Activation::gelu_tanh;
  if (config.flag("apply_residual_connection_post_layernorm", false)) {
    config.faults().unsupported(
        "'apply_residual_connection_post_layernorm' is true; residuals that leave behind the norm "
        "are not built");
  }
  // Splits sums for a bit-exact match with a training set-up.
  (void)config.flag("slow_but_exact", false);
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  config["seq_length"] = config["max_position_embeddings"];
  for (const char* key :
       {"max_position_embeddings", "rope_theta", "rope_scaling", "num_key_value_heads", "head_dim",
        "intermediate_size", "attention_bias", "mlp_bias"}) {
    config.erase(key);
  }
}

}  // namespace bloom_family

const Family kBloom{.model_type = "bloom",
                    .class_stem = "Bloom",
                    .architecture = "bloom",
                    .read = bloom_family::read,
                    .tensors = {.names = bloom_family::kNames,
                                .base = "transformer.",
                                .layers = "h.",
                                .layout = FolderLayout::per_head},
                    .gguf_eps_key = "layer_norm_epsilon",
                    .from_gguf = bloom_family::from_gguf};

}  // namespace tenon
