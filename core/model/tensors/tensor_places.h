// Where a model keeps what each of its tensors holds.
#pragma once

#include <vector>

#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {

// Model::layers must be as many as the plan's.
std::vector<TensorPlace> places_of(Model& model, const TensorSpec& spec);

// Where a tensor of a block is kept in layer `layer`, or outside the layers.
std::vector<TensorPlace> places_of(Model& model, const BlockTensor& tensor, int32_t layer,
                                   bool bias);

struct ConstTensorPlace {
  uint64_t rows = 0;
  const Weight* matrix = nullptr;
  const std::vector<float>* vector = nullptr;
  bool transposed = false;
  uint64_t first = 0;
};
std::vector<ConstTensorPlace> places_of(const Model& model, const TensorSpec& spec);

}  // namespace tenon
