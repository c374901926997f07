// From a linear kernel's finished sums to y, one row of one panel at a time.
#pragma once

#include <tenon/linear.h>
#include <tenon/sdk/simd.h>

#include <cstdint>

namespace tenon::sdk::simd {
inline namespace TENON_SIMD_SET {

// sums, second: [vectors * kLanes]; y: this row's first column of the panel; bias: the same
// column's, or null; scale: this row's factor, or null; columns: how many of the panel exist.
template <uint32_t vectors>
[[gnu::always_inline]] inline void finish_row(const float* sums, const float* second, float* y,
                                              const float* bias, const float* scale,
                                              uint32_t columns, Epilogue epilogue) noexcept {
  for (uint32_t v = 0; v < vectors; ++v) {
    const uint32_t first = v * kLanes;
    if (first >= columns) return;
    const uint32_t count = columns - first < kLanes ? columns - first : kLanes;
    F32 value = load(sums + first);
    if (scale != nullptr) value = mul(value, set1(*scale));
    if (bias != nullptr) value = add(value, load_first(bias + first, count));
    if (epilogue == Epilogue::silu_mul) {
      F32 other = load(second + first);
      if (scale != nullptr) other = mul(other, set1(*scale));
      value = mul(silu(value), other);
    } else if (epilogue == Epilogue::add) {
      value = add(load_first(y + first, count), value);
    }
    if (count == kLanes) {
      store(y + first, value);
    } else {
      store_first(y + first, value, count);
    }
  }
}

// GateFinish::silu_mul of kernels whose products end in finish_row.
[[gnu::always_inline]] inline void finish_silu_mul(float* y, const float* second,
                                                   uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; i += kLanes) {
    const uint64_t left = count - i;
    const uint32_t lanes = left < kLanes ? static_cast<uint32_t>(left) : kLanes;
    const F32 value = mul(silu(load_first(y + i, lanes)), load_first(second + i, lanes));
    store_first(y + i, value, lanes);
  }
}

}  // namespace TENON_SIMD_SET
}  // namespace tenon::sdk::simd
