// The table of one instruction set, compiled with its flags.
#pragma once

#include "plugins/linear/int8/multiply.h"
#include "plugins/linear/int8/prepare.h"

namespace tenon::int8 {

// From multiply.cc.in, one source each.
namespace TENON_INT8_SET {
void multiply_q8_0(const MultiplyTask& task);
void multiply_q4_0(const MultiplyTask& task);
void multiply_q4_1(const MultiplyTask& task);
void multiply_q5_0(const MultiplyTask& task);
void multiply_q5_1(const MultiplyTask& task);
void multiply_q6_k(const MultiplyTask& task);
void multiply_q4_k(const MultiplyTask& task);
void multiply_q5_k(const MultiplyTask& task);
}  // namespace TENON_INT8_SET

namespace {

void finish_gate(float* y, const float* second, uint64_t count) noexcept {
  sdk::simd::finish_silu_mul(y, second, count);
}

constexpr KernelSet make_kernel_set() {
  namespace set = TENON_INT8_SET;
  return {.name = kSetName,
          .panel_columns = kPanelColumns,
          .scratch_bytes = kScratchBytes,
          .stored_offset = kStoredOffset,
          .prepare = &prepare,
          .multiply = {&set::multiply_q8_0, &set::multiply_q4_0, &set::multiply_q4_1,
                       &set::multiply_q5_0, &set::multiply_q5_1, &set::multiply_q6_k,
                       &set::multiply_q4_k, &set::multiply_q5_k},
          .gate_finish = {.silu_mul = &finish_gate}};
}

}  // namespace
}  // namespace tenon::int8
