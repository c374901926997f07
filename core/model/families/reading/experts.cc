#include "core/model/families/reading/experts.h"

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

// Other names for the same number, which transformers takes in place of a family's own.
void check_other_counts(const JsonFields& config, const char* key) {
  for (const char* other :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    const json* value = config.find(other);
    if (value == nullptr || *value == *config.find(key)) continue;
    config.faults().invalid(config.name(other) + " is " + describe(*value) + " and " +
                            config.name(key) + " " + describe(*config.find(key)) +
                            "; expected the same number");
  }
}

// Of the two names the one that is no field of the reference's config, which sets it last.
const char* chosen_key(const JsonFields& config, const ExpertDefaults& defaults) {
  const char* const general = "num_experts_per_tok";
  if (defaults.chosen_key == nullptr) return general;
  for (const char* key : {general, defaults.chosen_key}) (void)config.find(key);
  return defaults.chosen_is_field ? general_or(config, general, defaults.chosen_key)
                                  : general_or(config, defaults.chosen_key, general);
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
  if (own) check_other_counts(config, key);
  experts.chosen = config.count(chosen_key(config, defaults), defaults.chosen, 1, kMaxExperts);
  experts.width = defaults.width;
  if (defaults.width_key != nullptr) {
    experts.width = config.count(defaults.width_key, defaults.width, 1, kMaxWidth);
  }
  experts.activation = read_activation(config, {"hidden_act"}, "silu");
  return experts;
}

void expect_value(const JsonFields& config, const char* key, std::string_view expected) {
  const std::string value = config.text(key, expected);
  if (value == expected) return;
  config.faults().unsupported(config.name(key) + " is " + in_quotes(value) +
                              "; this family runs with " + in_quotes(expected) + " alone");
}

void read_shared_experts(const JsonFields& config, const char* key, uint32_t count,
                         ExpertsPlan& experts) {
  const uint32_t most = kMaxWidth / std::max(experts.width, 1u);
  experts.shared_width = config.count(key, count, 0, most) * experts.width;
}

ExpertsPlan read_sigmoid_router(const JsonFields& config, const RouterDefaults& defaults) {
  ExpertsPlan experts = read_experts(config, defaults.experts);
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = true;
  experts.group_score = GroupScore::best_two;
  if (config.text("scoring_func", defaults.scoring) != defaults.scoring) {
    expect_value(config, "scoring_func", "sigmoid");
  }
  expect_value(config, "topk_method", "noaux_tc");
  experts.groups = config.count("n_group", defaults.groups, 1, kMaxWidth);
  experts.groups_chosen = config.count("topk_group", defaults.groups_chosen, 1, kMaxWidth);
  // transformers takes a null for no.
  experts.normalised = config.truth("norm_topk_prob", defaults.normalised);
  experts.scale = static_cast<float>(config.number(defaults.scale_key, defaults.scale));
  read_shared_experts(config, defaults.shared_key, defaults.shared, experts);
  return experts;
}

ExpertsPlan read_router_of_two_names(const JsonFields& config, const RouterDefaults& defaults) {
  const auto key = [&](const char* general, const char* own) {
    (void)config.find(general);
    return general_or(config, own, general);
  };
  const ExpertDefaults& usual = defaults.experts;
  ExpertsPlan experts;
  experts.count = config.count(key("num_local_experts", "num_experts"), usual.count, 1, 65536);
  experts.chosen =
      config.count(key("num_experts_per_tok", "num_experts_per_token"), usual.chosen, 1, 65536);
  experts.width = config.count("moe_intermediate_size", usual.width, 1, kMaxWidth);
  experts.scoring = ExpertScoring::sigmoid;
  experts.correction = true;
  experts.group_score = GroupScore::best_two;
  experts.groups = config.count(key("n_group", "num_expert_group"), defaults.groups, 1, kMaxWidth);
  experts.groups_chosen = config.count("topk_group", defaults.groups_chosen, 1, kMaxWidth);
  const char* norms[] = {"norm_topk_prob", "moe_renormalize"};
  experts.normalised = !config.is_null(norms[0]) && !config.is_null(norms[1]) &&
                       config.flag(key(norms[0], norms[1]), defaults.normalised);
  experts.scale = static_cast<float>(config.number(defaults.scale_key, defaults.scale));
  const uint32_t shared = config.count(key("n_shared_experts", "num_shared_experts"),
                                       defaults.shared, 0, kMaxWidth / experts.width);
  experts.shared_width = shared * experts.width;
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

std::vector<bool> read_sparse_after(const JsonFields& config, uint32_t dense, uint32_t layers) {
  dense = config.count("first_k_dense_replace", dense, 0, kMaxLayers);
  std::vector<bool> sparse(layers, false);
  for (size_t layer = dense; layer < layers; ++layer) sparse[layer] = true;
  return sparse;
}

std::vector<bool> read_mlp_types(const JsonFields& config, uint32_t dense, uint32_t layers) {
  const char* key = "mlp_layer_types";
  const json* types = config.find(key);
  if (types == nullptr) return read_sparse_after(config, dense, layers);
  const auto sound = [](const json& type) { return type == "dense" || type == "sparse"; };
  if (!types->is_array() || types->size() != layers || !std::ranges::all_of(*types, sound)) {
    config.faults().invalid(config.name(key) + " is " + describe(*types) + "; expected a list of " +
                            std::to_string(layers) + ", each \"dense\" or \"sparse\"");
    return std::vector<bool>(layers, false);
  }
  std::vector<bool> sparse;
  for (const json& type : *types) sparse.push_back(type == "sparse");
  // transformers writes both, and reads the list.
  (void)config.find("first_k_dense_replace");
  return sparse;
}

void set_experts(const std::vector<bool>& sparse, const ExpertsPlan& experts, ModelPlan& plan) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (sparse[i]) plan.layers[i].experts = experts;
  }
}

void set_checked_experts(const JsonFields& config, const std::vector<bool>& sparse,
                         const ExpertsPlan& experts, ModelPlan& plan) {
  if (std::ranges::find(sparse, true) == sparse.end()) return;
  check_experts(config, experts);
  set_experts(sparse, experts, plan);
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
  if (keys.shared_count != nullptr) {
    // Some converters write the width alone.
    const uint32_t wide = fields.count(".expert_shared_feed_forward_length", 0, 0, kMaxWidth);
    const uint32_t by_width = wide / config[width].get<uint32_t>();
    config[keys.shared_count] = fields.count(".expert_shared_count", by_width, 0, kMaxWidth);
  }
  if (keys.dense != nullptr) {
    config[keys.dense] = fields.count(".leading_dense_block_count", 0, 0, kMaxLayers);
  }
  ordered_json without = ordered_json::array(), types = ordered_json::array();
  const auto layers = config["num_hidden_layers"].get<uint32_t>();
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const bool sparse = fields.has_tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight");
    types.push_back(sparse ? "sparse" : "dense");
    if (!sparse) without.push_back(layer);
  }
  if (keys.without != nullptr) config[keys.without] = std::move(without);
  if (keys.types != nullptr) config[keys.types] = std::move(types);
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

void router_from_gguf(const GgufFields& fields, uint32_t gating, ordered_json& config) {
  experts_from_gguf(fields,
                    {.count = "n_routed_experts",
                     .width = "moe_intermediate_size",
                     .normalised = "norm_topk_prob",
                     .scale = "routed_scaling_factor",
                     .groups = "n_group",
                     .groups_chosen = "topk_group",
                     .shared_count = "n_shared_experts",
                     .dense = "first_k_dense_replace",
                     .gating = gating},
                    config);
}

void router_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out) {
  experts_to_gguf(plan, architecture, out);
  const auto found = std::ranges::find_if(
      plan.layers, [](const LayerPlan& layer) { return static_cast<bool>(layer.experts); });
  out.add_count(architecture + ".leading_dense_block_count",
                static_cast<uint32_t>(found - plan.layers.begin()));
  if (found == plan.layers.end()) return;
  const ExpertsPlan& experts = found->experts;
  out.add_count(architecture + ".expert_shared_count", experts.shared_width / experts.width);
}

}  // namespace tenon
