// What heads of all kinds take from their files and hold against them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/heads/head.h"

namespace tenon {

// A vector of `size` numbers of model.checkpoint, widened. Errors: not_found, and invalid_argument
// for another shape or type; both name the file.
Result<std::vector<float>> head_vector(const Model& model, const std::string& name, uint64_t size);

// A head without sense would draft what nobody accepts, and nothing would tell: invalid_argument
// for values that are no finite numbers.
Status check_head_numbers(const Model& model, const Head& head);

}  // namespace tenon
