// Where Tenon's own pipelines and models are: installed next to the program or library, or in the
// source tree that it was built from while it still lies in its build folder. Never the current
// folder.
#pragma once

#include <string>

#include "core/base/result.h"

namespace tenon::llm {

// <prefix>/share/tenon when installed, else the source tree. Error: not_found. [any thread]
Result<std::string> data_folder();
// configs/pipelines/default.toml of it.
Result<std::string> default_pipeline();

}  // namespace tenon::llm
