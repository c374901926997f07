// Apertus: Llama with norms of q and k, and a plain MLP activated by xIELU, whose numbers are
// learned.
#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace apertus_family {

constexpr TensorName kNames[] = {
    {Role::attention_norm, "attention_layernorm"},
    {Role::mlp_norm, "feedforward_layernorm"},
};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(
      config,
      {.vocabulary = 131072, .intermediate = 14336, .context_tokens = 65536, .bos = 1, .eos = 2},
      plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.gated = false;
  const bool own = config.text("hidden_act", "xielu") == "xielu";
  layer.mlp.activation = own ? Activation::xielu : read_activation(config, {"hidden_act"}, "xielu");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope_or(
      config, R"({"rope_type":"llama3","rope_theta":12000000.0,"factor":8.0,"low_freq_factor":1.0,
                  "high_freq_factor":4.0,"original_max_position_embeddings":8192})",
      {.theta = 12000000.0}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

// A file without a scaling has none.
void from_gguf(const GgufFields&, nlohmann::ordered_json& config) {
  if (config["rope_scaling"].is_null()) config["rope_scaling"] = {{"rope_type", "default"}};
}

}  // namespace apertus_family

const Family kApertus{.model_type = "apertus",
                      .class_stem = "Apertus",
                      .architecture = "apertus",
                      .read = apertus_family::read,
                      .tensors = {.names = apertus_family::kNames},
                      .from_gguf = apertus_family::from_gguf};

}  // namespace tenon
