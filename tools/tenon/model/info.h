// What a checkpoint is, for people and for programs.
#pragma once

#include <string>

#include "core/base/result.h"

namespace tenon {

// Prints to standard output; with `plan`, also every setting of the layers that is not as usual.
Status print_model_info(const std::string& folder, bool json, bool plan, const std::string& as);

}  // namespace tenon
