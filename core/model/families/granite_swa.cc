// Granite with windows in three of four layers, sinks of scores in all, and a base of the rotation
// for each layer; with an MLP, or with experts and an MLP that sees every token.
#include <algorithm>

#include "core/model/families/families.h"
#include "core/model/families/reading/experts.h"
#include "core/model/families/reading/granite.h"

namespace tenon {
namespace granite_swa_family {

using nlohmann::json;

// One setting for each base; 0: the layer does not turn.
void read_thetas(const JsonFields& config, ModelPlan& plan) {
  constexpr const char* kKey = "layer_rope_theta";
  const json* thetas = config.find(kKey);
  if (thetas == nullptr) return;
  const auto sound = [](const json& theta) {
    return theta.is_number() && (theta.get<double>() == 0.0 ||
                                 (theta.get<double>() > 1.0 && theta.get<double>() < 1e30));
  };
  if (!thetas->is_array() || thetas->size() != plan.layers.size() ||
      !std::ranges::all_of(*thetas, sound)) {
    config.faults().invalid(config.name(kKey) + " is " + describe(*thetas) +
                            "; expected a list of " + std::to_string(plan.layers.size()) +
                            " numbers, one a layer: 0, or above 1");
    return;
  }
  const RopePlan usual = plan.ropes.front();
  plan.ropes.clear();
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const double theta = (*thetas)[i].get<double>();
    auto found = std::ranges::find(plan.ropes, theta, &RopePlan::theta);
    if (theta != 0.0 && found == plan.ropes.end()) {
      plan.ropes.push_back(usual);
      plan.ropes.back().theta = theta;
      found = plan.ropes.end() - 1;
    }
    plan.layers[i].attention.rope =
        theta == 0.0 ? -1 : static_cast<int32_t>(found - plan.ropes.begin());
  }
}

// What all layers have besides `layer`.
void set_layers(const JsonFields& config, LayerPlan layer, uint32_t layers, ModelPlan& plan) {
  layer.attention.sinks = true;
  plan.layers.assign(layers, layer);
  std::vector<bool> sliding = read_sliding_layers(config, layers);
  for (size_t i = sliding.size(); i < layers; ++i) sliding.push_back(i % 4 != 0);
  set_windows(sliding, config.count("sliding_window", 128, 1, kMaxWidth), plan);
  read_thetas(config, plan);
}

void read(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config,
                                 {.vocabulary = 100352,
                                  .hidden = 2560,
                                  .intermediate = 8192,
                                  .layers = 24,
                                  .heads = 20,
                                  .kv_heads = 4,
                                  .context_tokens = 8192,
                                  .bos = 100257,
                                  .eos = 100257,
                                  .tied = true},
                                 plan);
  LayerPlan layer = read_granite_layer(config, shape, plan, 1e-5);
  layer.mlp.activation = read_activation(config, {"hidden_act"}, "silu");
  layer.mlp.bias = config.flag("mlp_bias", false);
  set_layers(config, layer, shape.layers, plan);
}

void read_moe(const JsonFields& config, ModelPlan& plan) {
  const Shape shape = read_shape(config, {.bos = 1, .eos = 2}, plan);
  LayerPlan layer = read_granite_layer(config, shape, plan);
  const uint32_t shared = config.count("shared_intermediate_size", 0, 0, kMaxWidth);
  layer.experts = read_granite_experts(config, shape.intermediate, shared);
  if (!layer.experts) {
    config.faults().invalid("a model of experts has some; 'num_local_experts' is 0");
  }
  layer.mlp.activation = layer.experts.activation;
  set_layers(config, layer, shape.layers, plan);
}

constexpr FamilyTensors kExpertTensors = [] {
  FamilyTensors tensors = kGraniteExpertTensors;
  tensors.names = kGraniteExpertNames;
  return tensors;
}();

}  // namespace granite_swa_family

const Family kGraniteSwa{.model_type = "granite_swa",
                         .class_stem = "GraniteSWA",
                         .architecture = "",
                         .read = granite_swa_family::read};
const Family kGraniteMoeSwa{.model_type = "granitemoe_swa",
                            .class_stem = "GraniteMoeSWA",
                            .architecture = "",
                            .read = granite_swa_family::read_moe,
                            .tensors = granite_swa_family::kExpertTensors};

}  // namespace tenon
