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
void multiply_iq4_nl(const MultiplyTask& task);
void multiply_mxfp4(const MultiplyTask& task);
void multiply_nf4(const MultiplyTask& task);
void multiply_fp4(const MultiplyTask& task);
void multiply_u2(const MultiplyTask& task);
void multiply_u3(const MultiplyTask& task);
void multiply_u4(const MultiplyTask& task);
void multiply_u8(const MultiplyTask& task);
void multiply_q2_k(const MultiplyTask& task);
void multiply_q3_k(const MultiplyTask& task);
void multiply_iq4_xs(const MultiplyTask& task);
void multiply_tq2_0(const MultiplyTask& task);
void multiply_iq2_xxs(const MultiplyTask& task);
void multiply_iq2_xs(const MultiplyTask& task);
void multiply_iq3_xxs(const MultiplyTask& task);
void multiply_iq3_s(const MultiplyTask& task);
void multiply_iq1_s(const MultiplyTask& task);
void multiply_iq1_m(const MultiplyTask& task);
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
  const auto at = [&](Format format) -> auto& {
    return kernels.multiply[static_cast<uint32_t>(format)];
  };
  at(Format::q8_0) = &set::multiply_q8_0;
  at(Format::q4_0) = &set::multiply_q4_0;
  at(Format::q4_1) = &set::multiply_q4_1;
  at(Format::q5_0) = &set::multiply_q5_0;
  at(Format::q5_1) = &set::multiply_q5_1;
  at(Format::q6_k) = &set::multiply_q6_k;
  at(Format::q4_k) = &set::multiply_q4_k;
  at(Format::q5_k) = &set::multiply_q5_k;
  at(Format::iq4_nl) = &set::multiply_iq4_nl;
  at(Format::mxfp4) = &set::multiply_mxfp4;
  at(Format::nf4_32) = &set::multiply_nf4;
  at(Format::fp4_32) = &set::multiply_fp4;
  at(Format::u2_32) = &set::multiply_u2;
  at(Format::u3_32) = &set::multiply_u3;
  at(Format::u4_32) = &set::multiply_u4;
  at(Format::u8_32) = &set::multiply_u8;
  at(Format::q2_k) = &set::multiply_q2_k;
  at(Format::q3_k) = &set::multiply_q3_k;
  at(Format::iq4_xs) = &set::multiply_iq4_xs;
  at(Format::tq2_0) = &set::multiply_tq2_0;
  at(Format::iq2_xxs) = &set::multiply_iq2_xxs;
  at(Format::iq2_xs) = &set::multiply_iq2_xs;
  at(Format::iq3_xxs) = &set::multiply_iq3_xxs;
  at(Format::iq3_s) = &set::multiply_iq3_s;
  at(Format::iq1_s) = &set::multiply_iq1_s;
  at(Format::iq1_m) = &set::multiply_iq1_m;
  return kernels;
}

}  // namespace
}  // namespace tenon::int8
