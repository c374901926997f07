// What Gemma's generations have in common.
#pragma once

#include "core/model/families/reading/config_keys.h"

namespace tenon {

// A cap of scores or logits; 0: none.
float read_cap(const JsonFields& config, const char* key, double fallback);
// Settings of their own for layers without a window, the plan's first, and with one: in
// rope_parameters by the type of layer, or in older files beside each other, where rope_scaling is
// for those without.
void read_gemma_ropes(const JsonFields& config, uint32_t head_dim, ModelPlan& plan);
// Each of the last `shared` layers reads the K and V of the last layer before them of its kind, by
// its rotary setting. `key` says how many.
void share_kv_by_kind(const JsonFields& config, const char* key, uint32_t shared, ModelPlan& plan);

nlohmann::ordered_json cap_from_gguf(const GgufFields& fields, const char* key, double fallback);

}  // namespace tenon
