// The tensors of an opened model, to be written again in another container or type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/gguf.h"
#include "core/model/model.h"

namespace tenon {

// A matrix, or a vector; by its name in a Hugging Face checkpoint.
struct ModelTensor {
  std::string name;
  const Weight* matrix = nullptr;
  const std::vector<float>* vector = nullptr;
  uint32_t rotated_heads = 0;  // of q and k, weights and biases: heads that rotary embedding turns
};

// In the order of use; no head when tied. The model outlives the result.
std::vector<ModelTensor> list_tensors(const Model& model);

// Whether rows of `elements` can be stored in a type: whole blocks.
bool fits_type(const TensorType& type, uint64_t elements);
// The type that a format of this program is.
const TensorType& type_of(const Weight& weight);

// One row of a matrix in `type`, which its rows fit: the same bytes where it is the stored type,
// else through f32.
void store_row(const Weight& weight, uint32_t row, const TensorType& type, std::byte* out);
// Values in a plain type or in blocks.
void store_values(const float* values, uint64_t count, const TensorType& type, std::byte* out);

}  // namespace tenon
