// config.json.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

// What the text of a config.json says of the model, read by its family. `name` (a path) leads every
// message. A family or a feature that is not built is refused with a sentence that names it.
Result<ModelPlan> parse_model_config(std::string_view json, std::string_view name);

}  // namespace tenon
