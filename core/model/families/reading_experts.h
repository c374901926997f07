// What families with experts have in common.
#pragma once

#include <string_view>
#include <vector>

#include "core/model/families/reading.h"

namespace tenon {

// The values that a family takes where config.json says nothing.
struct ExpertDefaults {
  uint32_t count = 0;
  uint32_t chosen = 0;              // 0: config.json must say it
  uint32_t width = 0;               // where there is no key for it
  const char* width_key = nullptr;  // null: `width` counts
  const char* count_key = nullptr;  // besides num_experts and num_local_experts
};
// Count, choice, width and activation ("hidden_act"). A count of 0 is a model without experts.
ExpertsPlan read_experts(const JsonFields& config, const ExpertDefaults& defaults);
// Groups of the choice and what follows from all: to be called once the plan is complete.
void check_experts(const JsonFields& config, const ExpertsPlan& experts);

// [layers] whether each has experts, by decoder_sparse_step and mlp_only_layers.
std::vector<bool> read_sparse_layers(const JsonFields& config, uint32_t layers);
// The experts of those layers; the others keep their MLP.
void set_experts(const std::vector<bool>& sparse, const ExpertsPlan& experts, ModelPlan& plan);

// What a GGUF file's keys of experts are in config.json, and what they must say where config.json
// cannot say it.
struct GgufExpertKeys {
  const char* count = "num_experts";
  const char* width = nullptr;         // null: intermediate_size, as feed_forward_length
  const char* shared_width = nullptr;  // null: no shared expert
  const char* normalised = nullptr;    // null: the family always has it one way
  bool normalised_by_default = false;
  // null: the family has no such keys, and what changes something is refused
  const char* scale = nullptr;
  const char* groups = nullptr;
  const char* groups_chosen = nullptr;
  const char* without = nullptr;  // the layers without experts; null: none may be
  uint32_t gating = 1;            // softmax; 2: sigmoid, 3: softmax of the chosen
};
void experts_from_gguf(const GgufFields& fields, const GgufExpertKeys& keys,
                       nlohmann::ordered_json& config);
// The keys of any plan whose layers with experts are alike.
void experts_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);

}  // namespace tenon
