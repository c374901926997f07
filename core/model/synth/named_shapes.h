// The shapes of well-known models, for checkpoints that stand in for them in speed measurements.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/config/model_config.h"

namespace tenon {

struct NamedShape {
  std::string_view name;         // "llama-3.2-1b"
  std::string_view description;  // "1.24 B parameters, GQA 32:8, tied, rope llama3"
  std::string (*config)();       // config.json, as the model's own in all that counts
};

// A shape's config.json, and what its family makes of it.
struct PlannedShape {
  std::string json;
  ModelPlan plan;
};

std::span<const NamedShape> named_shapes();
// With `layers` of them in place of its own, where that is not 0. Errors: not_found, with all
// names.
Result<PlannedShape> named_shape(std::string_view name, uint32_t layers = 0);

}  // namespace tenon
