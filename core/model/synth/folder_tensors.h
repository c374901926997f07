// The tensors that a model's folder has, by name and shape: what `model synth` writes, and what a
// model without weights is made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model/plan/model_plan.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {

struct FolderTensor {
  std::string name;
  std::vector<uint64_t> shape;
  const TensorSpec* spec;  // of `specs`
};

// Experts stand as the family stores them. `specs` is list_tensors(plan), and outlives the result.
std::vector<FolderTensor> folder_tensors(const ModelPlan& plan, std::span<const TensorSpec> specs);

}  // namespace tenon
