// Granite 3: Llama with a multiplier on embeddings, scores, residuals and logits each.
#include "core/model/families/reading/granite.h"

#include <algorithm>
#include <cmath>

#include "core/model/families/families.h"

namespace tenon {

LayerPlan read_granite_layer(const JsonFields& config, const Shape& shape, ModelPlan& plan,
                             double usual_eps) {
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", usual_eps));
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  layer.attention.scale = read_multiplier(config, "attention_multiplier");
  layer.residual_scale = read_multiplier(config, "residual_multiplier");
  plan.embedding_scale = read_multiplier(config, "embedding_multiplier");
  plan.logit_scale = 1.0f / read_multiplier(config, "logits_scaling");
  plan.final_norm = layer.attention_norm;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  return layer;
}

namespace granite_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = read_granite_layer(config, shape, plan);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  plan.layers.assign(shape.layers, layer);
}

// The divisor that reads back as the plan's factor.
float divisor_of(float factor) {
  const float divisor = 1.0f / factor;
  for (const float near : {std::nextafter(divisor, 0.0f), std::nextafter(divisor, 2 * divisor)}) {
    if (1.0f / divisor != factor && 1.0f / near == factor) return near;
  }
  return divisor;
}

}  // namespace granite_family

void multipliers_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  for (const auto& [key, name] : {std::pair(".attention.scale", "attention_multiplier"),
                                  std::pair(".residual_scale", "residual_multiplier"),
                                  std::pair(".embedding_scale", "embedding_multiplier"),
                                  std::pair(".logit_scale", "logits_scaling")}) {
    config[name] = fields.number(key, 1.0, 1e-6, 1e6);
  }
}

void multipliers_to_gguf(const ModelPlan& plan, const std::string& architecture,
                         GgufMetadata& out) {
  const auto attending = std::ranges::find_if(plan.layers, &LayerPlan::attends);
  if (attending != plan.layers.end()) {
    out.add_real(architecture + ".attention.scale", attending->attention.scale);
  }
  out.add_real(architecture + ".residual_scale", plan.layers.front().residual_scale);
  out.add_real(architecture + ".embedding_scale", plan.embedding_scale);
  out.add_real(architecture + ".logit_scale", granite_family::divisor_of(plan.logit_scale));
}

const Family kGranite{.model_type = "granite",
                      .class_stem = "Granite",
                      .architecture = "granite",
                      .read = granite_family::read,
                      .gguf_pairs_rows = true,
                      .from_gguf = multipliers_from_gguf,
                      .to_gguf = multipliers_to_gguf};

}  // namespace tenon
