// Experts as ExpertLayout::interleaved and turned have them in a folder, to be written.
#pragma once

#include "core/model/convert/safetensors_writer.h"
#include "core/model/tensors/model_tensors.h"

namespace tenon {

// The tensors of all experts for `out` alone (down), or for `out` (gate) and `up`, whose columns
// stand in turn or one after the other. Matrices become [experts, k_in, columns], vectors [experts,
// columns].
PlannedTensor plan_interleaved(const ModelTensor& out, const ModelTensor* up, bool in_turn,
                               const TensorType& type, DType dtype);

}  // namespace tenon
