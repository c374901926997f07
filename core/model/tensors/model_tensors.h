// The tensors of an opened model, to be written again in another container or type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/files/gguf.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_places.h"

namespace tenon {

// What a tensor of a Hugging Face checkpoint holds: matrices, or vectors, one behind the other.
struct ModelTensor {
  TensorSpec spec;
  std::vector<ConstTensorPlace> places;
  bool plus_one = false;       // a norm with the one added that folders leave out
  bool norms_by_head = false;  // a weight for each head
  float input_scale = 1.0f;    // by which the bias of folders was divided
};

// In the order of use; no head when tied. The model outlives the result.
std::vector<ModelTensor> model_tensors(const Model& model);

// Row `row` of what stands in several places, one behind the other.
struct PlacedRow {
  const ConstTensorPlace* place;
  uint64_t row;
};
PlacedRow row_of(const std::vector<ConstTensorPlace>& places, uint64_t row);

// Whether rows of `elements` can be stored in a type: whole blocks.
bool fits_type(const TensorType& type, uint64_t elements);
// The type that a format of this program is; bf16 for those that GGUF files have not.
const TensorType& type_of(const Weight& weight);

// One row of a matrix in `type`, which its rows fit: the same bytes where it is the stored type,
// else through f32.
void store_row(const Weight& weight, uint32_t row, const TensorType& type, std::byte* out);
// Rows [first, first + count) of what stands in several places, likewise.
void store_rows(const std::vector<ConstTensorPlace>& places, uint64_t first, uint64_t count,
                const TensorType& type, std::byte* out);
// Values in a plain type or in blocks.
void store_values(const float* values, uint64_t count, const TensorType& type, std::byte* out);

}  // namespace tenon
