// In which words two plans differ, for messages.
#pragma once

#include <string>

#include "core/model/plan/model_plan.h"

namespace tenon {

// The first number, choice or flag in which a plan that was read back is not the one that was
// written, by what config.json calls it: "the activation of layer 0 ('hidden_act') is gelu, and
// would be read back as silu". What loading resolves by the context's length is left out. Empty:
// none.
std::string plan_difference(const ModelPlan& written, const ModelPlan& read_back);

}  // namespace tenon
