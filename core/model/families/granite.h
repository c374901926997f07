// What Granite's generations have in common.
#pragma once

#include <nlohmann/json.hpp>

#include "core/model/family.h"

namespace tenon {

// The multipliers on embeddings, scores, residuals and logits in GGUF files.
void multipliers_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config);
void multipliers_to_gguf(const ModelPlan& plan, const std::string& architecture, GgufMetadata& out);

}  // namespace tenon
