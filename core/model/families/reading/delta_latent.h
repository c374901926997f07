// Models with latent attention in some layers, and in the others a delta rule that decays by the
// element (Kimi Linear, Ling 3); their GGUF files as llama.cpp lays them out.
#pragma once

#include "core/model/families/reading/latent.h"

namespace tenon {

// What such a delta rule has besides its heads, their state and the convolution; faults where heads
// are too wide.
void finish_element_delta(const JsonFields& config, float eps, RecurrentPlan& delta);

// Sizes of heads, ranks, which layers attend (the tensors tell), and experts, under transformers'
// names. Faults where a key is missing, or contradicts another.
void delta_latent_from_gguf(const GgufFields& fields, nlohmann::ordered_json& config);
// The same as metadata.
void delta_latent_to_gguf(const ModelPlan& plan, const std::string& architecture,
                          GgufMetadata& out);

}  // namespace tenon
