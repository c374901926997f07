// What a conversion would lose without a word.
#pragma once

#include "core/base/result.h"
#include "core/files/gguf.h"
#include "core/model/model.h"

namespace tenon {

// Error where a matrix of f32, f16 or bf16 has a value that `type` cannot hold: one beyond the
// largest of f16 and bf16, or of the scales of blocks, and in blocks also what is no finite number.
Status check_range(const Model& model, const TensorType& type);

}  // namespace tenon
