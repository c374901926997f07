// config.json.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

// What the text of a config.json says of the model, read by its family. `name` (a path) leads every
// message. A family or a feature that is not built is refused with a sentence that names it.
Result<ModelPlan> parse_model_config(std::string_view json, std::string_view name);

// The config.json of a model_type that no family has, rewritten as one of the family `as`, and
// logged as a warning: nothing but its user knows whether the arithmetic is the same. A model_type
// that a family has is refused, and so is an `as` that is none.
Result<std::string> read_config_as(std::string_view json, std::string_view as,
                                   std::string_view name);

}  // namespace tenon
