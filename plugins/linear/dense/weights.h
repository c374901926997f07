// How each weight format is read from a panel, as vectors of one instruction set.
//
// A policy says, for one step of `kStep` values of k: which words to load, and what a word adds to
// a sum. Steps run over k in rising order, whatever the number of rows; so do the values in one.
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

#if defined(__AVX512BF16__)
// One instruction multiplies both values of a pair; an x element is a pair as well.
struct Bf16DotWeights {
  using X = uint32_t;
  static constexpr uint32_t kStep = 1;
  static constexpr uint32_t kVectorBytes = simd::kLanes * 4;
  [[gnu::always_inline]] static F32 load(const std::byte* from) { return simd::load(from); }
  [[gnu::always_inline]] static F32 part(F32 word, uint32_t) { return word; }
  [[gnu::always_inline]] static F32 broadcast(const uint32_t* x) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*x)));
  }
  [[gnu::always_inline]] static F32 accumulate(F32 w, F32 x, F32 sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
  }
};
#endif

}  // namespace
}  // namespace tenon::dense
