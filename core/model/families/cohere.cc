// Command-R: one layer norm without a bias for both halves, which run in parallel; neighbours turn
// together; logits are scaled.
#include "core/model/families/families.h"
#include "core/model/families/reading.h"

namespace tenon {
namespace cohere_family {

constexpr TensorName kNames[] = {{Role::mlp_norm, ""}};

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 256000,
                                  .hidden = 8192,
                                  .intermediate = 22528,
                                  .layers = 40,
                                  .heads = 64,
                                  .context_tokens = 8192,
                                  .bos = 5,
                                  .eos = 255001,
                                  .tied = true},
                                 plan);
  const float eps = read_eps(config, "layer_norm_eps", 1e-5);
  LayerPlan layer = llama_layer(shape, eps);
  layer.attention_norm = plan.final_norm = {.kind = NormKind::layer, .eps = eps};
  layer.mlp_norm = {};
  layer.parallel = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  if (config.flag("use_qk_norm", false)) {
    layer.attention.qk_norm = layer.attention_norm;
    layer.attention.qk_norm_extent = QkNormExtent::own_head;
  }
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  plan.logit_scale = static_cast<float>(config.number("logit_scale", 0.0625));
  plan.ropes = {
      read_rope(config, {.theta = 500000.0, .pairs = true}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  config["logit_scale"] = fields.number(".logit_scale", 0.0625, 1e-6, 1e6);
  config["use_qk_norm"] = fields.has_tensor("blk.0.attn_q_norm.weight");
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  out.add_real(architecture + ".logit_scale", plan.logit_scale);
}

}  // namespace cohere_family

const Family kCohere{.model_type = "cohere",
                     .class_stem = "Cohere",
                     .architecture = "command-r",
                     .read = cohere_family::read,
                     .tensors = {.names = cohere_family::kNames},
                     .gguf_eps_key = "layer_norm_eps",
                     .from_gguf = cohere_family::from_gguf,
                     .to_gguf = cohere_family::to_gguf};

}  // namespace tenon
