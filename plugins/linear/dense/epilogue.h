// From finished sums to y, one row of one panel at a time.
#pragma once

#include "plugins/linear/dense/kernels.h"
#include "plugins/linear/dense/weights.h"

namespace tenon::dense {
namespace {

// sums, second: [kPanelColumns]; y: this row's first column of the panel; bias: the same column's,
// or null; columns: how many of the panel exist.
[[gnu::always_inline]] inline void finish_row(const float* sums, const float* second, float* y,
                                              const float* bias, uint32_t columns,
                                              Epilogue epilogue) {
  for (uint32_t v = 0; v < kPanelVectors; ++v) {
    const uint32_t first = v * simd::kLanes;
    if (first >= columns) return;
    const uint32_t count = columns - first < simd::kLanes ? columns - first : simd::kLanes;
    F32 value = simd::load(sums + first);
    if (epilogue == Epilogue::silu_mul) {
      value = simd::mul(simd::silu(value), simd::load(second + first));
    } else {
      if (bias != nullptr) value = simd::add(value, simd::load_first(bias + first, count));
      if (epilogue == Epilogue::add) {
        value = simd::add(simd::load_first(y + first, count), value);
      }
    }
    if (count == simd::kLanes) {
      simd::store(y + first, value);
    } else {
      simd::store_first(y + first, value, count);
    }
  }
}

}  // namespace
}  // namespace tenon::dense
