// What a model's matrices are stored as.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/model/model.h"

namespace tenon {

// Matrices by format: "bf16" → count. Experts, embedding and a head of its own are included.
inline std::map<std::string, uint32_t> stored_formats(const Model& model) {
  std::map<std::string, uint32_t> formats;
  const auto count = [&formats](const Weight& weight) { ++formats[weight.format]; };
  count(model.embedding);
  if (!model.plan.tied_embeddings) count(model.head);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) count(*weight);
  }
  return formats;
}

}  // namespace tenon
