// The table of one instruction set, compiled with its flags.
#pragma once

#include "plugins/linear/dense/multiply.h"
#include "plugins/linear/dense/pack.h"

namespace tenon::dense {

// From multiply.cc.in, one source each; formats with another's kernels have none.
namespace TENON_SIMD_SET {
void multiply_f32(const MultiplyTask& task);
void multiply_f16(const MultiplyTask& task);
void multiply_bf16(const MultiplyTask& task);
#define TENON_FORMAT(name, ...) void multiply_##name(const MultiplyTask& task);
#include <tenon/formats/weight_formats.def>
}  // namespace TENON_SIMD_SET

namespace {

void finish_gate(float* y, const float* second, uint64_t count) noexcept {
  sdk::simd::finish_silu_mul(y, second, count);
}

// Null where panels have the format's base.
constexpr KernelSet make_kernel_set(const char* name) {
  KernelSet kernels{.name = name,
                    .panel_columns = kPanelColumns,
                    .scratch_bytes = kScratchFloats * sizeof(float),
                    .pack = &pack,
                    .unpack_row = &unpack_row,
                    .prepare = &prepare,
                    .gate_finish = {.silu_mul = &finish_gate}};
  namespace set = TENON_SIMD_SET;
  const auto at = [&](Format format) -> auto& {
    return kernels.multiply[static_cast<uint32_t>(format)];
  };
  at(Format::f32) = &set::multiply_f32;
  at(Format::f16) = &set::multiply_f16;
  at(Format::bf16) = &set::multiply_bf16;
#define TENON_FORMAT(name, values, bytes, scales, scale_at, codes, base, ...) \
  if constexpr (sdk::QuantFormat::name == sdk::QuantFormat::base) {           \
    at(format_of(sdk::QuantFormat::name)) = &set::multiply_##name;            \
  }
#include <tenon/formats/weight_formats.def>
  return kernels;
}

}  // namespace
}  // namespace tenon::dense
