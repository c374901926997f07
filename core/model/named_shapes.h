// The shapes of well-known models, for checkpoints that stand in for them in speed measurements.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/model_config.h"

namespace tenon {

struct NamedShape {
  std::string_view name;         // "llama-3.2-1b"
  std::string_view description;  // "1.24 B parameters, GQA 32:8, tied, rope llama3"
  ModelConfig (*config)();       // as in the model's own config.json
};

std::span<const NamedShape> named_shapes();
// Errors: not_found, with all names.
Result<ModelConfig> named_shape(std::string_view name);

}  // namespace tenon
