// The table of one instruction set, compiled with its flags.
#pragma once

#include "plugins/linear/int8/multiply.h"
#include "plugins/linear/int8/prepare.h"

namespace tenon::int8 {

// From multiply.cc.in, one source each; FP8 has none, nor have formats with another's kernels.
namespace TENON_INT8_SET {
#define TENON_FORMAT(name, ...) void multiply_##name(const MultiplyTask& task);
#include <tenon/formats/weight_formats.def>
}  // namespace TENON_INT8_SET

namespace {

void finish_gate(float* y, const float* second, uint64_t count) noexcept {
  sdk::simd::finish_silu_mul(y, second, count);
}

// Null where panels have the format's base, and for FP8.
constexpr KernelSet make_kernel_set() {
  KernelSet kernels{.name = kSetName,
                    .panel_columns = kPanelColumns,
                    .scratch_bytes = kScratchBytes,
                    .stored_offset = kStoredOffset,
                    .prepare = &prepare,
                    .gate_finish = {.silu_mul = &finish_gate}};
  namespace set = TENON_INT8_SET;
#define TENON_FORMAT(name, values, bytes, scales, at, codes, base, ...)                    \
  if constexpr (Format::name == Format::base && BlockCodes::codes != BlockCodes::floats) { \
    kernels.multiply[static_cast<uint32_t>(Format::name)] = &set::multiply_##name;         \
  }
#include <tenon/formats/weight_formats.def>
  return kernels;
}

}  // namespace
}  // namespace tenon::int8
