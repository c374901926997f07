// Reading stored tensors, whose bytes may be aligned to nothing.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/base/half.h"

namespace tenon {

inline uint64_t element_count(const TensorView& view) {
  uint64_t count = 1;
  for (size_t i = 0; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

// The bytes of a tensor without gaps.
inline std::span<const std::byte> bytes_of(const TensorView& view) {
  return {static_cast<const std::byte*>(view.data),
          element_count(view) * dtype_bits(view.dtype) / 8};
}

// Element `index` in storage order, of a tensor of f32, f16 or bf16.
inline float element(const TensorView& view, uint64_t index) {
  const auto* bytes = static_cast<const std::byte*>(view.data);
  if (view.dtype == DType::f32) {
    float value;
    std::memcpy(&value, bytes + 4 * index, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes + 2 * index, 2);
  return view.dtype == DType::f16 ? float_from_f16(bits) : float_from_bf16(bits);
}

// The largest magnitude in a share of a tensor of f32, f16 or bf16, of one or two dimensions of
// which one has no gaps: infinity or NaN where a value is one.
float largest_magnitude(const TensorView& view, Slice share = {});
// One of these three.
inline bool is_plain_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace tenon
