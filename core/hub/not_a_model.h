// What a path leads to that a model was expected at: what to name instead.
#pragma once

#include <string>

#include "core/base/result.h"

namespace tenon {

// For a folder that has no config.json: GGUF files, an adapter, a model's folder in it, … `why` is
// the error of opening that file, which stays where nothing better is known.
Status no_model_folder(const std::string& folder, Status why);
// For a folder without weights that can be read.
Status no_weights(const std::string& folder);
// For a file that is no GGUF file.
Status no_model_file(const std::string& path);

}  // namespace tenon
