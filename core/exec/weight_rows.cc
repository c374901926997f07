#include "core/exec/weight_rows.h"

#include <string>

#include "core/model/tensor_values.h"

namespace tenon {
Status readable_by_rows(const Weight& weight) {
  if (weight.parts.size() == 1) {
    const TensorView& part = weight.parts[0];
    const bool type_ok =
        part.dtype == DType::f32 || part.dtype == DType::f16 || part.dtype == DType::bf16;
    const bool shape_ok = part.shape[0] == weight.n_out && part.shape[1] == weight.k_in;
    if (type_ok && shape_ok && part.data != nullptr) return {};
  }
  return unsupported("'" + weight.name + "' has format '" + weight.format +
                     "'; expected one matrix of f32, f16 or bf16");
}

void read_row(const Weight& weight, uint32_t row, float* out) {
  const TensorView& part = weight.parts[0];
  for (uint32_t k = 0; k < weight.k_in; ++k) {
    out[k] = element(part, row * part.stride[0] + k * part.stride[1]);
  }
}

}  // namespace tenon
