// Hunyuan's dense models: Llama with norms of q and k after they turn.
#include <cmath>

#include "core/model/families/families.h"
#include "core/model/families/reading/config_keys.h"

namespace tenon {
namespace hunyuan_family {

using nlohmann::json;

constexpr TensorName kNames[] = {
    {Role::q_norm, "self_attn.query_layernorm"},
    {Role::k_norm, "self_attn.key_layernorm"},
};

// Published files call "dynamic" what a fixed `alpha` stretches the base by, at any length.
RopePlan read_stretched_rope(const JsonFields& config, uint32_t head_dim, uint32_t context_tokens) {
  const json* scaling = config.find("rope_scaling");
  const bool old_style = scaling != nullptr && !(scaling->is_object() && scaling->empty());
  const json* object = old_style ? scaling : config.find("rope_parameters");
  if (object == nullptr || !object->is_object()) {
    return read_rope(config, {}, head_dim, context_tokens);
  }
  const JsonFields rope(*object, config.faults(), old_style ? "rope_scaling." : "rope_parameters.");
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type != "dynamic" || rope.number("alpha", 0.0) == 0.0) {
    return read_rope(config, {}, head_dim, context_tokens);
  }
  json plain = *object;
  plain["rope_type"] = "default";
  RopePlan out =
      read_rope_object(config, JsonFields(plain, config.faults()), {}, head_dim, context_tokens);
  const double alpha = bounded_number(rope, "alpha", 1.0);
  // Rounded as the reference rounds it; GGUF files have it so.
  const double stretch = head_dim > 2 ? std::pow(alpha, head_dim / (head_dim - 2.0)) : 1.0;
  out.theta = static_cast<float>(out.theta * stretch);
  return out;
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.vocabulary = 290943, .bos = 1, .eos = 2}, plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qk_norm_after_rope = true;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  // transformers has the norms whatever this says.
  (void)config.find("use_qk_norm");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_stretched_rope(config, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

}  // namespace hunyuan_family

const Family kHunyuanDense{.model_type = "hunyuan_v1_dense",
                           .class_stem = "HunYuanDenseV1",
                           .architecture = "hunyuan-dense",
                           .read = hunyuan_family::read,
                           .tensors = {.names = hunyuan_family::kNames}};

}  // namespace tenon
