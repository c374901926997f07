// Granite 3 with experts in every layer, and with an MLP beside them that sees every token. Their
// factors are the softmax of the chosen scores.
#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/granite.h"

namespace tenon {
namespace granite_moe_family {

void read_with(const JsonFields& config, ModelPlan& plan,
               uint32_t (*read_shared)(const JsonFields&)) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = read_granite_layer(config, shape, plan);
  layer.experts = read_granite_experts(config, shape.intermediate, read_shared(config));
  if (!layer.experts) {
    config.faults().invalid("a model of experts has some; 'num_local_experts' is 0");
  }
  layer.mlp.activation = layer.experts.activation;
  plan.layers.assign(shape.layers, layer);
}

void read(const JsonFields& config, ModelPlan& plan) {
  read_with(config, plan, [](const JsonFields&) { return uint32_t{0}; });
}

void read_shared(const JsonFields& config, ModelPlan& plan) {
  read_with(config, plan, [](const JsonFields& from) {
    return from.count("shared_intermediate_size", 0, 0, kMaxWidth);
  });
}

void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  multipliers_from_gguf(fields, config);
  experts_from_gguf(fields, {.count = "num_local_experts"}, config);
  const uint32_t shared = fields.count(".expert_shared_feed_forward_length", 0, 0, kMaxWidth);
  if (shared == 0) return;
  config["shared_intermediate_size"] = shared;
  config["model_type"] = "granitemoeshared";
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  multipliers_to_gguf(plan, architecture, out);
  experts_to_gguf(plan, architecture, out);
}

constexpr FamilyTensors kTensors = [] {
  FamilyTensors tensors = kGraniteExpertTensors;
  tensors.names = kGraniteExpertNames;
  return tensors;
}();

}  // namespace granite_moe_family

ExpertsPlan read_granite_experts(const JsonFields& config, uint32_t width, uint32_t shared_width) {
  ExpertsPlan experts = read_experts(config, {.count = 8, .chosen = 2, .width = width});
  experts.normalised = true;
  experts.shared_width = experts ? shared_width : 0;
  check_experts(config, experts);
  return experts;
}

const Family kGraniteMoe{.model_type = "granitemoe",
                         .class_stem = "GraniteMoe",
                         .architecture = "granitemoe",
                         .read = granite_moe_family::read,
                         .tensors = granite_moe_family::kTensors,
                         .gguf_pairs_rows = true,
                         .from_gguf = granite_moe_family::from_gguf,
                         .to_gguf = granite_moe_family::to_gguf};
// GGUF files call both alike; a width of what is shared tells them apart.
const Family kGraniteMoeShared{.model_type = "granitemoeshared",
                               .class_stem = "GraniteMoeShared",
                               .architecture = "granitemoe",
                               .read = granite_moe_family::read_shared,
                               .tensors = granite_moe_family::kTensors,
                               .gguf_pairs_rows = true,
                               .from_gguf = granite_moe_family::from_gguf,
                               .to_gguf = granite_moe_family::to_gguf};

}  // namespace tenon
