// MPT: layer norms without biases, plain MLPs, q, k and v in one matrix and cut off, ALiBi.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace mpt_family {

constexpr TensorName kNames[] = {
    {Role::embedding, "transformer.wte"},
    {Role::final_norm, "transformer.norm_f"},
    {Role::attention_norm, "norm_1"},
    {Role::qkv, "attn.Wqkv"},
    {Role::output, "attn.out_proj"},
    {Role::mlp_norm, "norm_2"},
    {Role::up, "ffn.up_proj"},
    {Role::down, "ffn.down_proj"},
};

// transformers has this number in its code and overlooks 'alibi' and 'alibi_bias_max'.
constexpr float kMaxBias = 8.0f;

void read_attention(const JsonFields& config, SelfAttentionPlan& attention) {
  const std::optional<JsonFields> own = config.object("attn_config");
  if (!own) return;
  if (own->has("softmax_scale")) {
    attention.scale = static_cast<float>(bounded_number(*own, "softmax_scale", 1.0));
  }
  if (own->number("clip_qkv", 0.0) != 0.0) attention.clip = read_multiplier(*own, "clip_qkv");
}

void read(const JsonFields& config, ModelPlan& plan) {
  const ShapeKeys keys{.hidden = general_or(config, "hidden_size", "d_model"),
                       .intermediate = nullptr,
                       .layers = general_or(config, "num_hidden_layers", "n_layers"),
                       .heads = general_or(config, "num_attention_heads", "n_heads"),
                       .kv_heads = nullptr,
                       .head_dim = nullptr,
                       .context_tokens = "max_seq_len"};
  const Shape shape = read_shape(config,
                                 {.vocabulary = 50368,
                                  .hidden = 2048,
                                  .intermediate = 4 * config.count(keys.hidden, 2048, 1, 1u << 28),
                                  .layers = 24,
                                  .heads = 16,
                                  .tied = true,
                                  .rotates = false},
                                 plan, keys);
  const float eps = read_eps(config, "layer_norm_epsilon", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = layer.mlp_norm = {.kind = NormKind::layer, .eps = eps};
  layer.mlp.gated = false;
  layer.mlp.activation = Activation::gelu;
  use_alibi(config, keys.heads, kMaxBias, layer.attention);
  read_attention(config, layer.attention);
  // transformers overlooks it.
  (void)config.find("logit_scale");
  plan.final_norm = layer.attention_norm;
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  const auto rename = [&](const char* from, const char* to) {
    config[to] = config[from];
    config.erase(from);
  };
  rename("hidden_size", "d_model");
  rename("num_hidden_layers", "n_layers");
  rename("num_attention_heads", "n_heads");
  rename("max_position_embeddings", "max_seq_len");
  const double bias = fields.number(".attention.max_alibi_bias", kMaxBias, 0.0, 1e6);
  if (bias != double{kMaxBias}) {
    fields.faults().unsupported(fields.name(".attention.max_alibi_bias") + " is " +
                                std::to_string(bias) + "; the reference knows 8 alone");
  }
  config["attn_config"] = nlohmann::ordered_json::object();
  const double clip = fields.number(".attention.clamp_kqv", 0.0, 0.0, 1e30);
  if (clip > 0.0) config["attn_config"]["clip_qkv"] = clip;
  for (const char* key : {"rope_theta", "rope_scaling", "num_key_value_heads", "head_dim",
                          "intermediate_size", "attention_bias", "mlp_bias"}) {
    config.erase(key);
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const SelfAttentionPlan& attention = plan.layers.front().attention;
  out.add_real(architecture + ".attention.max_alibi_bias", attention.alibi_max_bias);
  if (attention.clip > 0) out.add_real(architecture + ".attention.clamp_kqv", attention.clip);
}

}  // namespace mpt_family

const Family kMpt{
    .model_type = "mpt",
    .class_stem = "Mpt",
    .architecture = "mpt",
    .read = mpt_family::read,
    .tensors = {.names = mpt_family::kNames, .base = "transformer.", .layers = "blocks."},
    .gguf_eps_key = "layer_norm_epsilon",
    .from_gguf = mpt_family::from_gguf,
    .to_gguf = mpt_family::to_gguf};

}  // namespace tenon
