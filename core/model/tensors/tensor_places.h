// Where a model keeps what each of its tensors holds.
#pragma once

#include <vector>

#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {

// A matrix or a vector, one after the other where a tensor holds several. The other is null.
struct TensorPlace {
  uint64_t rows = 0;
  Weight* matrix = nullptr;
  std::vector<float>* vector = nullptr;
  bool transposed = false;  // the tensor's rows are the matrix's columns
};
// Model::layers must be as many as the plan's.
std::vector<TensorPlace> places_of(Model& model, const TensorSpec& spec);

struct ConstTensorPlace {
  uint64_t rows = 0;
  const Weight* matrix = nullptr;
  const std::vector<float>* vector = nullptr;
  bool transposed = false;
};
std::vector<ConstTensorPlace> places_of(const Model& model, const TensorSpec& spec);

}  // namespace tenon
