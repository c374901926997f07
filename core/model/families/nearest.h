// What to say of a model that no family runs.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// The end of a sentence about `name`, a model_type or an architecture of GGUF files that is not
// built: the nearest family that runs, and why this one is another, or at least that its name is
// like. "; the nearest family that runs is 'llama', but …"
std::string nearest_family(std::string_view name);

}  // namespace tenon
