// One vector of f32, as wide as the instruction set that this source is compiled for: a kernel is
// written once and compiled once per set (tenon_add_plugin's ISA_SOURCES):
//   portable   4 lanes, compiler vectors      no fused multiply-add: `fma` rounds twice
//   neon       4 lanes, any AArch64
//   avx2       8 lanes, AVX2 + FMA + F16C
//   avx512     16 lanes, AVX-512 F BW DQ VL
//
// All of it is in a namespace of that set and always inlined, so no linker mixes sets up. Write
// kernels likewise: templates in an anonymous namespace, raw pointers, no standard-library calls.
// Each set defines F32, Mask, kLanes, kRegisters (vector registers) and
//   zero set1 load store load_first store_first          *_first: the first n lanes, rest zero
//   stream end_streams                                   whole aligned lines past the caches, for
//                                                        what is not read soon; end_streams()
//                                                        before others may read it
//   add sub mul div fma(a,b,c)=a*b+c min max round       min/max: the second where one is NaN
//   reduce_add reduce_max first                          fixed trees; lane 0
//   less(a,b) select(mask, yes, no) lane_numbers
//   scale_exponent(x, n) exponent_bits                   x·2^n, n integral, |n| <= 250
//   widen_low widen_high                                 32-bit words of two bf16: either half
//   load_bf16 load_f16 store_bf16 store_f16              contiguous 16-bit values
//   load_i8 signed_byte<j>                               signed bytes: contiguous; of 32-bit words
//   load_u8_words                                        unsigned bytes as 32-bit words
//   load_nibbles(from, even, odd) nibble<j>              0 … 15: 2·kLanes contiguous; of words
//   load_halves(low, high)                               kLanes / 2 words from each
//   transpose(rows)                                      kLanes vectors in place
//   interleave(even, odd, front, back)                   even[0] odd[0] even[1] odd[1] …
#pragma once

#if defined(TENON_NEON)  // the flag of that set: every AArch64 compiler has its instructions
#include <tenon/sdk/simd/neon.h>  // IWYU pragma: export
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <tenon/sdk/simd/avx512.h>  // IWYU pragma: export
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <tenon/sdk/simd/avx2.h>  // IWYU pragma: export
#else
#include <tenon/sdk/simd/portable.h>  // IWYU pragma: export
#endif

namespace tenon::sdk::simd {
inline namespace TENON_SIMD_SET {

// e^r for |r| <= ln 2 / 2: the Taylor series to degree 6, whose next term is below 1.2e-7.
[[gnu::always_inline]] inline F32 exp_near_zero(F32 r) noexcept {
  F32 sum = set1(1.0f / 720.0f);
  sum = fma(sum, r, set1(1.0f / 120.0f));
  sum = fma(sum, r, set1(1.0f / 24.0f));
  sum = fma(sum, r, set1(1.0f / 6.0f));
  sum = fma(sum, r, set1(0.5f));
  sum = fma(sum, r, set1(1.0f));
  return fma(sum, r, set1(1.0f));
}

// x - n·ln 2, with ln 2 in two parts so that the difference is exact.
[[gnu::always_inline]] inline F32 without_powers(F32 x, F32 n) noexcept {
  return fma(n, set1(-1.42860682e-6f), fma(n, set1(-0.693145751953125f), x));
}

// e^x with a relative error below 3e-7; 0 below -87.3 (no subnormal results), infinity above 88.7.
[[gnu::always_inline]] inline F32 exp(F32 x) noexcept {
  const F32 lowest = set1(-87.3f);
  const F32 highest = set1(88.72f);
  const F32 inside = min(highest, max(lowest, x));
  const F32 n = round(mul(inside, set1(1.44269504f)));
  const F32 result = scale_exponent(exp_near_zero(without_powers(inside, n)), n);
  const F32 positive = select(less(highest, x), set1(__builtin_inff()), result);
  return select(less(x, lowest), zero(), positive);
}

// 2^x for x <= 0, in few instructions: what a softmax in base 2 needs. Relative error below 2e-7;
// 0 below -126 (no subnormal results).
[[gnu::always_inline]] inline F32 exp2_nonpositive(F32 x) noexcept {
  const F32 shift = set1(12582912.0f + 127.0f);  // rounds to integers, biased like an exponent
  const F32 shifted = add(x, shift);
  const F32 rest = sub(x, sub(shifted, shift));  // |rest| <= 1/2, exact
  // Nearly the best polynomial of degree 5 that is 1 at 0; its own error is 9e-8.
  F32 sum = set1(0.0013264724984765053f);
  sum = fma(sum, rest, set1(0.009671512991189957f));
  sum = fma(sum, rest, set1(0.05550733581185341f));
  sum = fma(sum, rest, set1(0.24022242426872253f));
  sum = fma(sum, rest, set1(0.6931470036506653f));
  sum = fma(sum, rest, set1(1.0f));
  return select(less(x, set1(-126.0f)), zero(), mul(sum, exponent_bits(shifted)));
}

// x · sigmoid(x).
[[gnu::always_inline]] inline F32 silu(F32 x) noexcept {
  return div(x, add(set1(1.0f), exp(sub(zero(), x))));
}

// Relative error below 4e-7.
[[gnu::always_inline]] inline F32 tanh(F32 x) noexcept {
  const F32 magnitude = max(x, sub(zero(), x));
  const F32 decay = exp(mul(magnitude, set1(-2.0f)));
  const F32 far = div(sub(set1(1.0f), decay), add(set1(1.0f), decay));
  // Near 0 that difference has few digits left. Chebyshev's fit of (tanh(x) - x) / x^3 in x^2.
  const F32 square = mul(x, x);
  F32 sum = set1(-0.0062763904f);
  sum = fma(sum, square, set1(0.021116216f));
  sum = fma(sum, square, set1(-0.053875137f));
  sum = fma(sum, square, set1(0.13332924f));
  sum = fma(sum, square, set1(-0.33333331f));
  const F32 near = fma(mul(sum, square), x, x);
  const F32 signed_far = select(less(x, zero()), sub(zero(), far), far);
  return select(less(magnitude, set1(0.6f)), near, signed_far);
}

}  // namespace TENON_SIMD_SET
}  // namespace tenon::sdk::simd
