// The table of one instruction set, compiled with its flags.
#pragma once

#include "plugins/linear/dense/multiply.h"
#include "plugins/linear/dense/pack.h"

namespace tenon::dense {

// From multiply.cc.in, one source each.
namespace TENON_SIMD_SET {
void multiply_f32(const MultiplyTask& task);
void multiply_f16(const MultiplyTask& task);
void multiply_bf16(const MultiplyTask& task);
void multiply_q8_0(const MultiplyTask& task);
void multiply_q4_0(const MultiplyTask& task);
void multiply_q4_1(const MultiplyTask& task);
void multiply_q5_0(const MultiplyTask& task);
void multiply_q5_1(const MultiplyTask& task);
void multiply_q6_k(const MultiplyTask& task);
void multiply_q4_k(const MultiplyTask& task);
void multiply_q5_k(const MultiplyTask& task);
}  // namespace TENON_SIMD_SET

namespace {

void finish_gate(float* y, const float* second, uint64_t count) noexcept {
  sdk::simd::finish_silu_mul(y, second, count);
}

constexpr KernelSet make_kernel_set(const char* name) {
  namespace set = TENON_SIMD_SET;
  return {.name = name,
          .panel_columns = kPanelColumns,
          .scratch_bytes = kScratchFloats * sizeof(float),
          .pack = &pack,
          .unpack_row = &unpack_row,
          .prepare = &prepare,
          .multiply = {&set::multiply_f32, &set::multiply_f16, &set::multiply_bf16,
                       &set::multiply_q8_0, &set::multiply_q4_0, &set::multiply_q4_1,
                       &set::multiply_q5_0, &set::multiply_q5_1, &set::multiply_q6_k,
                       &set::multiply_q4_k, &set::multiply_q5_k},
          .gate_finish = {.silu_mul = &finish_gate}};
}

}  // namespace
}  // namespace tenon::dense
