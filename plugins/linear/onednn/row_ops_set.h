// The functions of row_ops.h, compiled with one instruction set's flags.
#pragma once

#include <tenon/sdk/linear/epilogue.h>
#include <tenon/sdk/simd.h>

#include "plugins/linear/onednn/row_ops.h"
#include "plugins/linear/onednn/sizes.h"

namespace tenon::onednn {
namespace {

namespace simd = sdk::simd;

inline void prepare(const float* x, uint32_t k_in, RowForms forms) {
  const uint64_t end = padded(k_in);
  for (uint64_t k = 0; k < end; k += simd::kLanes) {
    simd::F32 value = simd::zero();
    if (k_in >= k + simd::kLanes) {
      value = simd::load(x + k);
    } else if (k_in > k) {
      value = simd::load_first(x + k, static_cast<uint32_t>(k_in - k));
    }
    if (forms.f32 != nullptr) simd::store(forms.f32 + k, value);
    if (forms.bf16 != nullptr) simd::store_bf16(forms.bf16 + k, value);
  }
}

inline void finish(const FinishTask& task) {
  for (uint64_t r = 0; r < task.rows; ++r) {
    for (uint32_t c = 0; c < task.columns; c += kPanelColumns) {
      const uint64_t from = r * task.width + c;
      const uint32_t left = task.columns - c;
      simd::finish_row<kPanelColumns / simd::kLanes>(
          task.sums + from, task.second == nullptr ? nullptr : task.second + from,
          task.y + r * task.y_stride + c, task.bias == nullptr ? nullptr : task.bias + c,
          left < kPanelColumns ? left : kPanelColumns, task.epilogue);
    }
  }
}

constexpr RowOps make_row_ops() {
  return {.prepare = &prepare, .finish = &finish};
}

}  // namespace
}  // namespace tenon::onednn
