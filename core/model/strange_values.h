// Weights that are no finite numbers. A model with some runs: a row of a head that no text asks for
// does no harm.
#pragma once

#include <span>
#include <string>

#include "core/model/model.h"

namespace tenon {

// Whether a share of a matrix is finite numbers: the values that a checkpoint stores in f32, f16 or
// bf16, or what multiplies and moves those of its blocks. FP8 may hold others, which are not seen.
bool is_finite(const Weight& weight, Slice share);

// One warning that names the first of these tensors; none for none.
void warn_of_strange_values(std::span<const std::string> tensors);

}  // namespace tenon
