// What heads of all kinds take from their files and hold against them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model/heads/head.h"

namespace tenon {

// A vector of `size` numbers of model.checkpoint, widened. Errors: not_found, and invalid_argument
// for another shape or type; both name the file.
Result<std::vector<float>> head_vector(const Model& model, const std::string& name, uint64_t size);

// The same of a tensor of whatever shape that has so many numbers, such as one row of a matrix.
Result<std::vector<float>> head_row(const Model& model, const std::string& name, uint64_t size);

// A head without sense would draft what nobody accepts, and nothing would tell: invalid_argument
// for values that are no finite numbers.
Status check_head_numbers(const Model& model, const Head& head);

// A folder of layers for multi-token prediction as speculators writes it, into `opened`, whose
// model has path and plan. Errors: as of open_own_head.
Status take_mtp_folder(std::unique_ptr<Checkpoint> stored, const Model& target, OpenedHead& opened);

}  // namespace tenon
