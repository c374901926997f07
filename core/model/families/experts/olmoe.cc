// OLMoE: Llama with experts in every layer; q and k are normed as a whole, and q, k and v may be
// clipped.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"

namespace tenon {
namespace olmoe_family {

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 50304,
                                  .hidden = 2048,
                                  .intermediate = 2048,
                                  .layers = 16,
                                  .heads = 16,
                                  .context_tokens = 4096,
                                  .eos = 50279},
                                 plan);
  LayerPlan layer = llama_layer(shape, read_eps(config, "rms_norm_eps", 1e-5));
  plan.final_norm = layer.attention.qk_norm = layer.attention_norm;
  layer.attention.qk_norm_extent = QkNormExtent::whole;
  layer.attention.qkv_bias = layer.attention.output_bias = config.flag("attention_bias", false);
  if (config.has("clip_qkv")) {
    layer.attention.clip = static_cast<float>(bounded_number(config, "clip_qkv", 0.0));
  }
  layer.experts = read_experts(config, {.count = 64, .chosen = 8, .width = shape.intermediate});
  layer.experts.normalised = config.flag("norm_topk_prob", false);
  check_experts(config, layer.experts);
  layer.mlp.activation = layer.experts.activation;
  plan.ropes = {read_rope(config, {}, shape.head_dim, plan.context_tokens)};
  plan.layers.assign(shape.layers, layer);
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  experts_from_gguf(fields, {.normalised = "norm_topk_prob"}, config);
  if (fields.has(".attention.clamp_kqv")) {
    const double clip = fields.number(".attention.clamp_kqv", 0.0, 0.0, 1e30);
    if (clip > 0.0) config["clip_qkv"] = clip;
  }
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  experts_to_gguf(plan, architecture, out);
  const float clip = plan.layers.front().attention.clip;
  if (clip > 0.0f) out.add_real(architecture + ".attention.clamp_kqv", clip);
}

}  // namespace olmoe_family

const Family kOlmoe{.model_type = "olmoe",
                    .class_stem = "Olmoe",
                    .architecture = "olmoe",
                    .read = olmoe_family::read,
                    .from_gguf = olmoe_family::from_gguf,
                    .to_gguf = olmoe_family::to_gguf};

}  // namespace tenon
