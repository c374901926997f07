// What each rank has of a model, from the model alone: nothing is loaded, and no rank is started.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/result.h"
#include "core/exec/ranks/model_cut.h"

namespace tenon {

// Where ranks keep their parts, which decides what is cut (docs/parallel.md).
enum class RankMemory : uint8_t { host, device };

struct RankPart {
  ModelCut cut;
  ModelPlan plan;             // as it was cut
  uint64_t weight_bytes = 0;  // of the checkpoint; kernels pack them into about as many
  // Elements of f32 that ranks exchange for a row: of the layer with the most, and of all; and
  // where its logits are wanted.
  uint64_t most_elements = 0, all_elements = 0, logits_elements = 0;
};

// Cuts the model as each rank would have it, one after the other; it is whole again afterwards.
// Errors: those of `cut`.
Result<std::vector<RankPart>> parts_of_ranks(
    Model& model, uint32_t ranks, RankMemory memory,
    const std::function<Result<ModelCut>(Model& model, uint32_t rank)>& cut);

}  // namespace tenon
