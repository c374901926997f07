// What a checkpoint is, for people and for programs.
#pragma once

#include <string>

#include "core/base/result.h"

namespace tenon {

// Prints to standard output.
Status print_model_info(const std::string& folder, bool json);

}  // namespace tenon
