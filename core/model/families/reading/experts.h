// What families with experts have in common.
#pragma once

#include <string_view>
#include <vector>

#include "core/model/families/reading/config_keys.h"

namespace tenon {

// The values that a family takes where config.json says nothing.
struct ExpertDefaults {
  uint32_t count = 0;
  uint32_t chosen = 0;               // 0: config.json must say it
  uint32_t width = 0;                // where there is no key for it
  const char* width_key = nullptr;   // null: `width` counts
  const char* count_key = nullptr;   // besides num_experts and num_local_experts
  const char* chosen_key = nullptr;  // besides num_experts_per_tok
  bool chosen_is_field = true;       // of the reference's config, so that the other name outweighs
};
// Count, choice, width and activation ("hidden_act"). A count of 0 is a model without experts.
ExpertsPlan read_experts(const JsonFields& config, const ExpertDefaults& defaults);

// The same for DeepSeek-V3's router (arXiv:2412.19437): factors are sigmoids of scores, experts are
// chosen by those with a correction, out of groups that are judged by their two best. Shared
// experts are one wide MLP.
struct RouterDefaults {
  ExpertDefaults experts = {};
  uint32_t shared = 1;
  const char* shared_key = "n_shared_experts";
  float scale = 1.0f;
  const char* scale_key = "routed_scaling_factor";
  const char* scoring = "sigmoid";  // what "scoring_func" may say, too
  bool normalised = true;
  uint32_t groups = 1;
  uint32_t groups_chosen = 1;
};
ExpertsPlan read_sigmoid_router(const JsonFields& config, const RouterDefaults& defaults);
// The same where each key has transformers' general name or the one of published files (Kimi
// Linear, Ling 3). Of `defaults` the numbers count. What else the scores may be is left to the
// caller.
ExpertsPlan read_router_of_two_names(const JsonFields& config, const RouterDefaults& defaults);
// `count` shared experts as wide as the others, by `key`.
void read_shared_experts(const JsonFields& config, const char* key, uint32_t count,
                         ExpertsPlan& experts);
// A key that says what is built anyway.
void expect_value(const JsonFields& config, const char* key, std::string_view expected);

// Groups of the choice and what follows from all: to be called once the plan is complete.
void check_experts(const JsonFields& config, const ExpertsPlan& experts);

// [layers] whether each has experts, by decoder_sparse_step and mlp_only_layers.
std::vector<bool> read_sparse_layers(const JsonFields& config, uint32_t layers);
// [layers] the same by first_k_dense_replace, or `dense` where it is missing.
std::vector<bool> read_sparse_after(const JsonFields& config, uint32_t dense, uint32_t layers);
// [layers] the same by mlp_layer_types, or as above where that is missing.
std::vector<bool> read_mlp_types(const JsonFields& config, uint32_t dense, uint32_t layers);
// The experts of those layers; the others keep their MLP.
void set_experts(const std::vector<bool>& sparse, const ExpertsPlan& experts, ModelPlan& plan);
// Checks them where any layer has them.
void set_checked_experts(const JsonFields& config, const std::vector<bool>& sparse,
                         const ExpertsPlan& experts, ModelPlan& plan);

// expert_gating_func of GGUF files.
inline constexpr uint32_t kGgufSoftmax = 1, kGgufSigmoid = 2;

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
  const char* shared_count = nullptr;  // as many as wide as the others; null: none
  const char* without = nullptr;       // the layers without experts; null: none may be
  const char* dense = nullptr;         // so many layers without experts come first; null: not so
  const char* types = nullptr;         // a list of "dense" and "sparse"; null: not so
  uint32_t gating = kGgufSoftmax;      // 3: softmax of the chosen
};
void experts_from_gguf(const GgufFields& fields, const GgufExpertKeys& keys,
                       nlohmann::ordered_json& config);
// The keys of experts as DeepSeek calls them in config.json; `gating` as above.
void router_from_gguf(const GgufFields& fields, uint32_t gating, nlohmann::ordered_json& config);
// The keys of any plan whose layers with experts are alike.
void experts_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);
// With the numbers of shared experts and of layers before the first with experts.
void router_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);

}  // namespace tenon
