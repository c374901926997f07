#include "core/model/families/reading_experts.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_config.h"

namespace tenon {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr uint32_t kMaxExperts = 65536;

// Both names are in use, one for the other.
const char* count_key(const JsonFields& config) {
  const bool local = config.has("num_local_experts"), plain = config.has("num_experts");
  if (local && plain && *config.find("num_local_experts") != *config.find("num_experts")) {
    config.faults().invalid("'num_local_experts' is " +
                            describe(*config.find("num_local_experts")) + " and 'num_experts' " +
                            describe(*config.find("num_experts")) + "; expected the same number");
  }
  return local ? "num_local_experts" : "num_experts";
}

void check_gguf_number(const GgufFields& fields, std::string_view key, double neutral,
                       std::string_view what) {
  const double value = fields.number(key, neutral, -1e30, 1e30);
  if (value == neutral || value == 0.0) return;
  fields.faults().unsupported(fields.name(key) + " is " + fields.find(key)->describe() + "; " +
                              std::string(what) + " are not built for this architecture");
}

void check_gating(const GgufFields& fields, uint32_t expected) {
  const uint32_t gating = fields.count(".expert_gating_func", expected, 0, 255);
  if (gating == expected || gating == 0) return;
  fields.faults().unsupported(fields.name(".expert_gating_func") + " is " + std::to_string(gating) +
                              "; this architecture has " + std::to_string(expected));
}

uint32_t gating_of(ExpertScoring scoring) {
  return scoring == ExpertScoring::softmax ? 1 : scoring == ExpertScoring::sigmoid ? 2 : 3;
}

}  // namespace

ExpertsPlan read_experts(const JsonFields& config, const ExpertDefaults& defaults) {
  ExpertsPlan experts;
  const bool own = defaults.count_key != nullptr && config.has(defaults.count_key);
  const char* key = own ? defaults.count_key : count_key(config);
  experts.count = config.count(key, defaults.count, 0, kMaxExperts);
  experts.chosen = config.count("num_experts_per_tok", defaults.chosen, 1, kMaxExperts);
  experts.width = defaults.width;
  if (defaults.width_key != nullptr) {
    experts.width = config.count(defaults.width_key, defaults.width, 1, kMaxWidth);
  }
  experts.activation = read_activation(config, {"hidden_act"}, "silu");
  return experts;
}

void check_experts(const JsonFields& config, const ExpertsPlan& experts) {
  if (!experts) return;
  const auto number = [](uint32_t value) { return std::to_string(value); };
  Faults& faults = config.faults();
  if (experts.chosen == 0) return faults.invalid("'num_experts_per_tok' is missing");
  if (experts.chosen > experts.count) {
    const char* key = count_key(config);
    return faults.invalid("'num_experts_per_tok' is " + number(experts.chosen) + "; there are " +
                          number(experts.count) + " experts" +
                          (config.has(key) ? " by " + config.name(key) : ""));
  }
  if (experts.groups == 0 || experts.count % experts.groups != 0) {
    return faults.invalid(number(experts.count) + " experts do not make " + number(experts.groups) +
                          " equal groups");
  }
  const uint32_t each = experts.count / experts.groups;
  if (experts.groups_chosen > experts.groups || experts.groups_chosen * each < experts.chosen) {
    faults.invalid(number(experts.groups_chosen) + " of " + number(experts.groups) +
                   " groups of experts are chosen, " + number(each) + " experts each; expected " +
                   number(experts.chosen) + " experts or more in them");
  }
  if (experts.group_score == GroupScore::best_two && experts.groups > 1 && each < 2) {
    faults.invalid("groups of one expert have no two best ones to be judged by");
  }
}

std::vector<bool> read_sparse_layers(const JsonFields& config, uint32_t layers) {
  const uint32_t step = config.count("decoder_sparse_step", 1, 1, kMaxLayers);
  std::vector<bool> sparse(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) sparse[layer] = (layer + 1) % step == 0;
  const json* without = config.find("mlp_only_layers");
  if (without == nullptr) return sparse;
  const auto sound = [](const json& item) { return item.is_number_unsigned(); };
  if (!without->is_array() || !std::ranges::all_of(*without, sound)) {
    config.faults().invalid("'mlp_only_layers' is " + describe(*without) +
                            "; expected a list of layers");
    return sparse;
  }
  for (const json& item : *without) {
    const auto layer = item.get<uint64_t>();
    if (layer < layers) sparse[layer] = false;
  }
  return sparse;
}

void set_experts(const std::vector<bool>& sparse, const ExpertsPlan& experts, ModelPlan& plan) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (sparse[i]) plan.layers[i].experts = experts;
  }
}

void experts_from_gguf(const GgufFields& fields, const GgufExpertKeys& keys, ordered_json& config) {
  config[keys.count] = fields.need_count(".expert_count", 0, kMaxExperts);
  // A file without experts uses none of them.
  const bool any = config[keys.count].get<uint32_t>() > 0;
  const uint32_t chosen = fields.need_count(".expert_used_count", any ? 1 : 0, kMaxExperts);
  config["num_experts_per_tok"] = std::max(chosen, 1u);
  const auto feed_forward = config["intermediate_size"].get<uint32_t>();
  const char* width = keys.width != nullptr ? keys.width : "intermediate_size";
  config[width] = fields.count(".expert_feed_forward_length", feed_forward, 1, kMaxWidth);
  if (keys.shared_width != nullptr) {
    config[keys.shared_width] =
        fields.count(".expert_shared_feed_forward_length", feed_forward, 1, kMaxWidth);
  }
  if (keys.normalised != nullptr) {
    config[keys.normalised] = fields.flag(".expert_weights_norm", keys.normalised_by_default);
  } else {
    (void)fields.flag(".expert_weights_norm", true);
  }
  check_gating(fields, keys.gating);
  if (keys.scale != nullptr) {
    // 0 is what files say that say nothing.
    const double scale = fields.number(".expert_weights_scale", 1.0, -1e30, 1e30);
    config[keys.scale] = scale == 0.0 ? 1.0 : shortest_double(static_cast<float>(scale));
  } else {
    check_gguf_number(fields, ".expert_weights_scale", 1.0, "scaled factors of experts");
  }
  if (keys.groups != nullptr) {
    config[keys.groups] = fields.count(".expert_group_count", 1, 1, kMaxExperts);
    config[keys.groups_chosen] = fields.count(".expert_group_used_count", 1, 1, kMaxExperts);
  } else {
    check_gguf_number(fields, ".expert_group_count", 1.0, "groups of experts");
  }
  if (keys.without == nullptr) return;
  ordered_json without = ordered_json::array();
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (!fields.has_tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight")) {
      without.push_back(layer);
    }
  }
  config[keys.without] = std::move(without);
}

void experts_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  const auto found = std::ranges::find_if(
      plan.layers, [](const LayerPlan& layer) { return static_cast<bool>(layer.experts); });
  const ExpertsPlan experts = found == plan.layers.end() ? ExpertsPlan{} : found->experts;
  out.add_count(architecture + ".expert_count", experts.count);
  out.add_count(architecture + ".expert_used_count", experts ? experts.chosen : 0);
  if (!experts) return;
  out.add_count(architecture + ".expert_feed_forward_length", experts.width);
  if (experts.shared_width > 0) {
    out.add_count(architecture + ".expert_shared_feed_forward_length", experts.shared_width);
  }
  out.add_count(architecture + ".expert_gating_func", gating_of(experts.scoring));
  if (experts.scoring != ExpertScoring::softmax_of_chosen) {
    out.add_flag(architecture + ".expert_weights_norm", experts.normalised);
  }
  if (experts.scale != 1.0f) out.add_real(architecture + ".expert_weights_scale", experts.scale);
  if (experts.groups > 1) {
    out.add_count(architecture + ".expert_group_count", experts.groups);
    out.add_count(architecture + ".expert_group_used_count", experts.groups_chosen);
  }
}

}  // namespace tenon
