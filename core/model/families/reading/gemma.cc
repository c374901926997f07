#include "core/model/families/reading/gemma.h"

namespace tenon {

float read_cap(const JsonFields& config, const char* key, double fallback) {
  const double cap = config.is_null(key) ? 0.0 : config.number(key, fallback);
  if (config.has(key) && cap <= 0.0) {
    config.faults().invalid(config.name(key) + " is " + describe(*config.find(key)) +
                            "; expected a number above 0, or null for no cap");
  }
  return static_cast<float>(cap);
}

void read_gemma_ropes(const JsonFields& config, uint32_t head_dim, ModelPlan& plan) {
  const RopeDefaults full{.theta = 1e6}, local{.theta = 1e4, .theta_key = "rope_local_base_freq"};
  read_two_ropes(config, full, local, head_dim, plan);
}

void share_kv_by_kind(const JsonFields& config, const char* key, uint32_t shared, ModelPlan& plan) {
  const auto layers = static_cast<uint32_t>(plan.layers.size());
  for (uint32_t i = layers - shared; i < layers; ++i) {
    SelfAttentionPlan& attention = plan.layers[i].attention;
    for (uint32_t j = 0; j < layers - shared; ++j) {
      if (plan.layers[j].attention.rope != attention.rope) continue;
      attention.kv_from_layer = static_cast<int32_t>(j);
    }
    if (attention.kv_from_layer < 0) {
      return config.faults().invalid(config.name(key) + " is " + std::to_string(shared) +
                                     ", but layer " + std::to_string(i) +
                                     " has no layer of its kind before those to read K and V of");
    }
    attention.k_is_v = false;
    attention.v_norm_eps = 0.0f;
  }
}

nlohmann::ordered_json cap_from_gguf(const GgufFields& fields, const char* key, double fallback) {
  const double cap = fields.number(key, fallback, 0.0, 1e30);
  return cap > 0.0 ? nlohmann::ordered_json(cap) : nlohmann::ordered_json(nullptr);
}

}  // namespace tenon
