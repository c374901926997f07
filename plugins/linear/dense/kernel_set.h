// The table of one instruction set: everything above, compiled with its flags.
#pragma once

#include "plugins/linear/dense/multiply.h"
#include "plugins/linear/dense/pack.h"

namespace tenon::dense {
namespace {

// B: how bf16 weights are multiplied.
template <class B>
void multiply_any(const MultiplyTask& task) {
  switch (task.format) {
    case Format::f32:
      return multiply<F32Weights>(task);
    case Format::f16:
      return multiply<F16Weights>(task);
    case Format::bf16:
      return multiply<B>(task);
    default:
      return sdk::with_quant_format(quant_format(task.format), [&](auto format) {
        multiply<QuantWeights<decltype(format)>>(task);
      });
  }
}

template <class B>
constexpr KernelSet make_kernel_set(const char* name) {
  return {.name = name,
          .panel_columns = kPanelColumns,
          .scratch_bytes = kScratchFloats * sizeof(float),
          .uses_pairs = !__is_same(typename B::X, float),
          .pack = &pack,
          .unpack_row = &unpack_row,
          .prepare = &prepare,
          .multiply = &multiply_any<B>};
}

}  // namespace
}  // namespace tenon::dense
