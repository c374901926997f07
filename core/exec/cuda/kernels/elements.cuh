// Elements of arrays that are f32 or bf16.
#pragma once

#include <tenon/cuda/machine.h>

namespace tenon::cuda {

inline constexpr int kRowThreads = 128;

TENON_DEVICE void put(Global<float> to, int64_t i, float x) {
  to[i] = x;
}
TENON_DEVICE void put(Global<BFloat16> to, int64_t i, float x) {
  to[i] = to_bfloat16(x);
}
template <typename T>
TENON_DEVICE float get(Global<const T> from, int64_t i) {
  const T x = from[i];
  return to_float(x);
}

}  // namespace tenon::cuda
