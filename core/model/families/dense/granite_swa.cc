// Granite with windows in three of four layers, sinks of scores in all, and a base of the rotation
// for each layer; with an MLP, or with experts and an MLP that sees every token.
#include <algorithm>
#include <array>
#include <vector>

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

// GGUF files leave the gate and up of the MLP that sees every token in one tensor, by the name of
// up.
constexpr auto kExpertNames = [] {
  std::array<TensorName, std::size(kGraniteExpertNames) + 1> names = {};
  std::ranges::copy(kGraniteExpertNames, names.begin());
  for (TensorName& name : names) {
    if (name.role == Role::shared_gate_up) name.stored = "ffn_up_shexp";
  }
  names.back() = {Role::shared_up, ""};
  return names;
}();
constexpr FamilyTensors kExpertTensors = [] {
  FamilyTensors tensors = kGraniteExpertTensors;
  tensors.names = kExpertNames;
  tensors.gguf_parts_gate_up = false;
  return tensors;
}();

// Both have one name in such files; experts tell them apart. One base is all layers', of which a
// list says which turn.
void from_gguf(const GgufFields& fields, nlohmann::ordered_json& config) {
  multipliers_from_gguf(fields, config);
  if (fields.count(".expert_count", 0, 0, kMaxWidth) > 0) {
    experts_from_gguf(fields, {.count = "num_local_experts"}, config);
    config["model_type"] = "granitemoe_swa";
    config["shared_intermediate_size"] =
        fields.count(".expert_shared_feed_forward_length", 0, 0, kMaxWidth);
  }
  const auto layers = config["num_hidden_layers"].get<size_t>();
  const double theta = config["rope_theta"];
  std::vector<double> turns = fields.numbers(".attention.rope_pattern", layers);
  turns.resize(layers, turns.empty() ? 1.0 : 0.0);
  config["layer_rope_theta"] = nlohmann::ordered_json::array();
  for (const double each : turns) config["layer_rope_theta"].push_back(each != 0.0 ? theta : 0.0);
}

void to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  multipliers_to_gguf(plan, architecture, out);
  if (plan.layers.front().experts) experts_to_gguf(plan, architecture, out);
  std::vector<bool> turns;
  for (const LayerPlan& layer : plan.layers) turns.push_back(layer.attention.rope >= 0);
  out.add_flags(architecture + ".attention.rope_pattern", turns);
}

}  // namespace granite_swa_family

const Family kGraniteSwa{.model_type = "granite_swa",
                         .class_stem = "GraniteSWA",
                         .architecture = "granite_swa",
                         .read = granite_swa_family::read,
                         .gguf_pairs_rows = true,
                         .from_gguf = granite_swa_family::from_gguf,
                         .to_gguf = granite_swa_family::to_gguf};
const Family kGraniteMoeSwa{.model_type = "granitemoe_swa",
                            .class_stem = "GraniteMoeSWA",
                            .architecture = "granite_swa",
                            .read = granite_swa_family::read_moe,
                            .tensors = granite_swa_family::kExpertTensors,
                            .gguf_pairs_rows = true,
                            .from_gguf = granite_swa_family::from_gguf,
                            .to_gguf = granite_swa_family::to_gguf};

}  // namespace tenon
