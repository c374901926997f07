#include "core/exec/weight_rows.h"

#include <cstring>
#include <string>

#include "core/base/half.h"

namespace tenon {
namespace {

template <typename Stored, float (*kWiden)(Stored)>
void widen_row(const std::byte* from, uint64_t stride, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, from + i * stride * sizeof(Stored), sizeof(Stored));
    out[i] = kWiden(stored);
  }
}

float same(float value) {
  return value;
}

}  // namespace

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
  const auto* from = static_cast<const std::byte*>(part.data) +
                     row * part.stride[0] * (dtype_bits(part.dtype) / 8);
  if (part.dtype == DType::f32) widen_row<float, same>(from, part.stride[1], weight.k_in, out);
  if (part.dtype == DType::f16) {
    widen_row<uint16_t, float_from_f16>(from, part.stride[1], weight.k_in, out);
  }
  if (part.dtype == DType::bf16) {
    widen_row<uint16_t, float_from_bf16>(from, part.stride[1], weight.k_in, out);
  }
}

}  // namespace tenon
