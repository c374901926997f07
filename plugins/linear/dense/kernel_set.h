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
void multiply_iq4_nl(const MultiplyTask& task);
void multiply_mxfp4(const MultiplyTask& task);
void multiply_nf4(const MultiplyTask& task);
void multiply_fp4(const MultiplyTask& task);
void multiply_u2(const MultiplyTask& task);
void multiply_u3(const MultiplyTask& task);
void multiply_u4(const MultiplyTask& task);
void multiply_u8(const MultiplyTask& task);
void multiply_f8(const MultiplyTask& task);
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
  at(format_of(sdk::QuantFormat::q8_0)) = &set::multiply_q8_0;
  at(format_of(sdk::QuantFormat::q4_0)) = &set::multiply_q4_0;
  at(format_of(sdk::QuantFormat::q4_1)) = &set::multiply_q4_1;
  at(format_of(sdk::QuantFormat::q5_0)) = &set::multiply_q5_0;
  at(format_of(sdk::QuantFormat::q5_1)) = &set::multiply_q5_1;
  at(format_of(sdk::QuantFormat::q6_k)) = &set::multiply_q6_k;
  at(format_of(sdk::QuantFormat::q4_k)) = &set::multiply_q4_k;
  at(format_of(sdk::QuantFormat::q5_k)) = &set::multiply_q5_k;
  at(format_of(sdk::QuantFormat::iq4_nl)) = &set::multiply_iq4_nl;
  at(format_of(sdk::QuantFormat::mxfp4)) = &set::multiply_mxfp4;
  at(format_of(sdk::QuantFormat::nf4_32)) = &set::multiply_nf4;
  at(format_of(sdk::QuantFormat::fp4_32)) = &set::multiply_fp4;
  at(format_of(sdk::QuantFormat::u2_32)) = &set::multiply_u2;
  at(format_of(sdk::QuantFormat::u3_32)) = &set::multiply_u3;
  at(format_of(sdk::QuantFormat::u4_32)) = &set::multiply_u4;
  at(format_of(sdk::QuantFormat::u8_32)) = &set::multiply_u8;
  at(format_of(sdk::QuantFormat::f8_32)) = &set::multiply_f8;
  at(format_of(sdk::QuantFormat::q2_k)) = &set::multiply_q2_k;
  at(format_of(sdk::QuantFormat::q3_k)) = &set::multiply_q3_k;
  at(format_of(sdk::QuantFormat::iq4_xs)) = &set::multiply_iq4_xs;
  at(format_of(sdk::QuantFormat::tq2_0)) = &set::multiply_tq2_0;
  at(format_of(sdk::QuantFormat::iq2_xxs)) = &set::multiply_iq2_xxs;
  at(format_of(sdk::QuantFormat::iq2_xs)) = &set::multiply_iq2_xs;
  at(format_of(sdk::QuantFormat::iq3_xxs)) = &set::multiply_iq3_xxs;
  at(format_of(sdk::QuantFormat::iq3_s)) = &set::multiply_iq3_s;
  at(format_of(sdk::QuantFormat::iq1_s)) = &set::multiply_iq1_s;
  at(format_of(sdk::QuantFormat::iq1_m)) = &set::multiply_iq1_m;
  return kernels;
}

}  // namespace
}  // namespace tenon::dense
