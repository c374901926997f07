// How each weight format is read from a panel, as vectors of one instruction set.
//
// A policy says, for one step of `kStep` values of k: which words to load, and what a word adds to
// a sum. Steps run over k in rising order, whatever the number of rows; so do the values in one.
// Quantised formats have a scale a column in front of every kScaleSteps steps.
#pragma once

#include <tenon/sdk/simd.h>

#include <cstddef>
#include <cstdint>

namespace tenon::dense {
namespace {

namespace simd = sdk::simd;
using simd::F32;

inline constexpr uint32_t kPanelVectors = 2;  // two: an x value is loaded once for two FMAs
inline constexpr uint32_t kPanelColumns = kPanelVectors * simd::kLanes;

struct F32Weights {
  using X = float;
  static constexpr uint32_t kStep = 1;
  static constexpr uint32_t kScaleSteps = 0;
  static constexpr uint32_t kVectorBytes = simd::kLanes * 4;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load(from); }
  [[gnu::always_inline]] static F32 part(F32 word, uint32_t) { return word; }
  [[gnu::always_inline]] static F32 broadcast(const float* x) { return simd::set1(*x); }
  [[gnu::always_inline]] static F32 accumulate(F32 w, F32 x, F32 sum) {
    return simd::fma(w, x, sum);
  }
};

struct F16Weights : F32Weights {
  static constexpr uint32_t kVectorBytes = simd::kLanes * 2;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load_f16(from); }
};

struct Bf16Weights : F32Weights {
  static constexpr uint32_t kStep = 2;
  [[gnu::always_inline]] static F32 part(F32 word, uint32_t which) {
    return which == 0 ? simd::widen_low(word) : simd::widen_high(word);
  }
};

typedef int32_t Words __attribute__((vector_size(sizeof(F32))));

// Bits [first, first + count) of every word as a signed number.
[[gnu::always_inline]] inline F32 signed_bits(F32 words, uint32_t first, uint32_t count) {
  const Words top = (Words)words << static_cast<int>(32 - count - first);
  return __builtin_convertvector(top >> static_cast<int>(32 - count), F32);
}

// A word holds four values of one column. The product with an f16 scale is exact.
struct Q8Weights : F32Weights {
  static constexpr uint32_t kStep = 4;
  static constexpr uint32_t kScaleSteps = 8;
  [[gnu::always_inline]] static F32 part(F32 word, uint32_t which, F32 scale) {
    return simd::mul(signed_bits(word, 8 * which, 8), scale);
  }
};

// A word holds eight.
struct Q4Weights : F32Weights {
  static constexpr uint32_t kStep = 8;
  static constexpr uint32_t kScaleSteps = 4;
  [[gnu::always_inline]] static F32 part(F32 word, uint32_t which, F32 scale) {
#if defined(__AVX512F__)
    // The permutation reads four bits of an index: a table of all values, in one instruction.
    const F32 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    const auto index = (__m512i)((Words)word >> static_cast<int>(4 * which));
    return simd::mul(_mm512_permutexvar_ps(index, table), scale);
#else
    return simd::mul(signed_bits(word, 4 * which, 4), scale);
#endif
  }
};

#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
// One instruction multiplies both values of a pair; an x element is a pair as well.
struct Bf16DotWeights {
  using X = uint32_t;
  static constexpr uint32_t kStep = 1;
  static constexpr uint32_t kScaleSteps = 0;
  static constexpr uint32_t kVectorBytes = simd::kLanes * 4;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load(from); }
  [[gnu::always_inline]] static F32 part(F32 word, uint32_t) { return word; }
#if defined(TENON_NEON)
  [[gnu::always_inline]] static F32 broadcast(const uint32_t* x) {
    return (F32)vdupq_n_u32(*x);
  }
  [[gnu::always_inline]] static F32 accumulate(F32 w, F32 x, F32 sum) {
    return vbfdotq_f32(sum, (bfloat16x8_t)w, (bfloat16x8_t)x);
  }
#else
  [[gnu::always_inline]] static F32 broadcast(const uint32_t* x) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*x)));
  }
  [[gnu::always_inline]] static F32 accumulate(F32 w, F32 x, F32 sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
  }
#endif
};
#endif

// Part j of a word, by whichever way the format has.
template <class W>
[[gnu::always_inline]] inline F32 part_of(F32 word, uint32_t j, F32 scale) {
  if constexpr (W::kScaleSteps > 0) {
    return W::part(word, j, scale);
  } else {
    return W::part(word, j);
  }
}

// Bytes of a panel that hold its first `steps` steps, whole groups in quantised formats.
template <class W>
constexpr uint64_t bytes_of_steps(uint64_t steps) {
  uint64_t bytes = steps * kPanelVectors * W::kVectorBytes;
  if constexpr (W::kScaleSteps > 0) bytes += steps / W::kScaleSteps * kPanelColumns * 2;
  return bytes;
}

}  // namespace
}  // namespace tenon::dense
