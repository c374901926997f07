// The functions of row_ops.h, compiled with one instruction set's flags.
#pragma once

#include <tenon/sdk/linear/epilogue.h>
#include <tenon/sdk/simd.h>

#include "plugins/linear/onednn/row_ops.h"
#include "plugins/linear/onednn/sizes.h"

namespace tenon::onednn {
namespace {

namespace simd = sdk::simd;

inline void prepare(const float* x, uint32_t k_in, Format format, void* to) {
  const uint64_t end = padded(k_in);
  for (uint64_t k = 0; k < end; k += simd::kLanes) {
    simd::F32 value = simd::zero();
    if (k_in >= k + simd::kLanes) {
      value = simd::load(x + k);
    } else if (k_in > k) {
      value = simd::load_first(x + k, static_cast<uint32_t>(k_in - k));
    }
    if (format == Format::f32) {
      simd::store(static_cast<float*>(to) + k, value);
    } else {
      simd::store_bf16(static_cast<uint16_t*>(to) + k, value);
    }
  }
}

inline void finish(const FinishTask& task) {
  for (uint64_t r = 0; r < task.rows; ++r) {
    float* y = task.y + (task.y_rows == nullptr ? r : task.y_rows[r]) * task.y_stride;
    for (uint32_t c = 0; c < task.columns; c += kPanelColumns) {
      const uint64_t from = r * task.width + c;
      const uint32_t left = task.columns - c;
      simd::finish_row<kPanelColumns / simd::kLanes>(
          task.sums + from, task.second == nullptr ? nullptr : task.second + from, y + c,
          task.bias == nullptr ? nullptr : task.bias + c,
          task.row_scale == nullptr ? nullptr : task.row_scale + r,
          left < kPanelColumns ? left : kPanelColumns, task.epilogue);
    }
  }
}

constexpr RowOps make_row_ops() {
  return {.prepare = &prepare, .finish = &finish};
}

}  // namespace
}  // namespace tenon::onednn
