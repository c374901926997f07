// 8-bit dot products of AArch64, as dot.h describes them: three sets with one layout of panels and
// the same bits, since a group's sum is a whole number however it is added up. All bytes are
// signed.
//
//   neon            products of 16 bits, as many of one lane added as fit, then pairs widened
//   neon_dotprod    SDOT by lane: four steps of a row of x are loaded at once
//   neon_i8mm       SMMLA: two rows times two columns, eight k; one row as neon_dotprod
//
// A policy takes several steps at once (`add_steps`), so that it can load x for all of them.
#pragma once

#include <arm_neon.h>
#include <tenon/sdk/simd.h>

#include <cstdint>

#include "plugins/linear/int8/kernels.h"

namespace tenon::int8 {
namespace {

namespace simd = sdk::simd;
using simd::F32;

using Bytes = int8x16_t;
inline constexpr const char* kSetName = "int8.2/neon";
inline constexpr bool kChangesCodes = false;
inline constexpr bool kLaneStarts = false;
inline constexpr bool kSplitsSigns = false;
inline constexpr uint32_t kStoredOffset[3] = {0, 8, 128};
inline constexpr int32_t kStartBits = 0;

[[gnu::always_inline]] inline Bytes load_bytes(const std::byte* from) {
  return vld1q_s8(reinterpret_cast<const int8_t*>(from));
}
[[gnu::always_inline]] inline Bytes low_nibbles(Bytes pairs) {
  return vandq_s8(pairs, vdupq_n_s8(15));
}
[[gnu::always_inline]] inline Bytes high_nibbles(Bytes pairs) {
  return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(pairs), 4));
}
// The instruction gives 0 for an index that is not below 16.
[[gnu::always_inline]] inline Bytes lookup(const int8_t* table, Bytes index) {
  return vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_s8(low_nibbles(index)));
}
[[gnu::always_inline]] inline void store_bytes(Bytes value, std::byte* to) {
  vst1q_s8(reinterpret_cast<int8_t*>(to), value);
}
// A NaN becomes 0, and a NaN result by its scale.
[[gnu::always_inline]] inline void store_int8(F32 integers, int8_t* to) {
  const int16x4_t halves = vmovn_s32(vcvtq_s32_f32(integers));
  const int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
  const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
  __builtin_memcpy(to, &four, sizeof(four));
}

// Four values of k of one row, twice.
[[gnu::always_inline]] inline int8x8_t broadcast_four(const std::byte* from) {
  int32_t word;
  __builtin_memcpy(&word, from, sizeof(word));
  return vreinterpret_s8_s32(vdup_n_s32(word));
}

// What all policies have in common.
struct DotOfWords {
  using Scale = F32;
  [[gnu::always_inline]] static Scale scale(F32 factor) { return factor; }
  [[gnu::always_inline]] static F32 converted(int32x4_t sum, int32_t start) {
    return vcvtq_f32_s32(vaddq_s32(sum, vdupq_n_s32(start)));
  }
};

#if defined(__ARM_FEATURE_DOTPROD)

[[gnu::always_inline]] inline int32x4_t dot_lane(int32x4_t sum, Bytes w, int8x16_t x,
                                                 uint32_t lane) {
  switch (lane) {
    case 0:
      return vdotq_laneq_s32(sum, w, x, 0);
    case 1:
      return vdotq_laneq_s32(sum, w, x, 1);
    case 2:
      return vdotq_laneq_s32(sum, w, x, 2);
    default:
      return vdotq_laneq_s32(sum, w, x, 3);
  }
}

struct Dot : DotOfWords {
  using Sum = int32x4_t;
  static constexpr uint32_t kTileRows = 8;
  [[gnu::always_inline]] static Sum start(int32_t) { return vdupq_n_s32(0); }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t start) { return converted(sum, start); }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }

  // Steps [first, first + count) of a group: bytes(v, s) are those of step s of vector v, x the
  // first row's group.
  template <uint32_t count, uint32_t R, uint32_t vectors, class At, class Ahead>
  [[gnu::always_inline]] static void add_steps(Sum (&sum)[R][vectors], const std::byte* x,
                                               uint32_t first, const Ahead& ahead,
                                               const At& bytes) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    if constexpr (R > 1) return add_pairs<count>(sum, x, first, ahead, bytes);
#endif
#pragma GCC unroll 2
    for (uint32_t four = 0; four < count; four += 4) {
      int8x16_t values[R];
#pragma GCC unroll 8
      for (uint32_t r = 0; r < R; ++r) {
        values[r] = load_bytes(x + r * kRowBlockBytes + (first + four) * 4);
      }
#pragma GCC unroll 4
      for (uint32_t lane = 0; lane < 4; ++lane) {
        const uint32_t s = first + four + lane;
        ahead.step(s);
        Bytes w[vectors];
#pragma GCC unroll 2
        for (uint32_t v = 0; v < vectors; ++v) w[v] = bytes(v, s);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
          for (uint32_t v = 0; v < vectors; ++v) {
            sum[r][v] = dot_lane(sum[r][v], w[v], values[r], lane);
          }
        }
      }
    }
  }

#if defined(__ARM_FEATURE_MATMUL_INT8)
 private:
  // Columns 0 and 1, or 2 and 3, of eight k.
  [[gnu::always_inline]] static Bytes columns(Bytes early, Bytes late, bool high) {
    const int32x4_t a = vreinterpretq_s32_s8(early), b = vreinterpretq_s32_s8(late);
    return vreinterpretq_s8_s32(high ? vzip2q_s32(a, b) : vzip1q_s32(a, b));
  }

  // Rows in pairs; a last one without a partner is its own.
  template <uint32_t count, uint32_t R, uint32_t vectors, class At, class Ahead>
  [[gnu::always_inline]] static void add_pairs(Sum (&sum)[R][vectors], const std::byte* x,
                                               uint32_t first, const Ahead& ahead,
                                               const At& bytes) {
    constexpr uint32_t kPairs = (R + 1) / 2;
    // [2 rows][2 columns] each
    int32x4_t products[kPairs][vectors][2];
#pragma GCC unroll 4
    for (uint32_t p = 0; p < kPairs; ++p) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < vectors; ++v) products[p][v][0] = products[p][v][1] = start(0);
    }
#pragma GCC unroll 2
    for (uint32_t four = first; four < first + count; four += 4) {
      // Eight k of both rows, and the next eight.
      Bytes rows[kPairs][2];
#pragma GCC unroll 4
      for (uint32_t p = 0; p < kPairs; ++p) {
        const std::byte* row = x + 2 * p * kRowBlockBytes + four * 4;
        const std::byte* other = 2 * p + 1 < R ? row + kRowBlockBytes : row;
        const int64x2_t a = vreinterpretq_s64_s8(load_bytes(row));
        const int64x2_t b = vreinterpretq_s64_s8(load_bytes(other));
        rows[p][0] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        rows[p][1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
      }
#pragma GCC unroll 2
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t s = four + 2 * half;
        ahead.step(s);
        ahead.step(s + 1);
        Bytes w[vectors][2];
#pragma GCC unroll 2
        for (uint32_t v = 0; v < vectors; ++v) {
          const Bytes early = bytes(v, s), late = bytes(v, s + 1);
          w[v][0] = columns(early, late, false);
          w[v][1] = columns(early, late, true);
        }
#pragma GCC unroll 4
        for (uint32_t p = 0; p < kPairs; ++p) {
#pragma GCC unroll 2
          for (uint32_t v = 0; v < vectors; ++v) {
            products[p][v][0] = vmmlaq_s32(products[p][v][0], rows[p][half], w[v][0]);
            products[p][v][1] = vmmlaq_s32(products[p][v][1], rows[p][half], w[v][1]);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (uint32_t p = 0; p < kPairs; ++p) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < vectors; ++v) {
        const int64x2_t front = vreinterpretq_s64_s32(products[p][v][0]);
        const int64x2_t back = vreinterpretq_s64_s32(products[p][v][1]);
        sum[2 * p][v] = vreinterpretq_s32_s64(vzip1q_s64(front, back));
        if (2 * p + 1 < R) sum[2 * p + 1][v] = vreinterpretq_s32_s64(vzip2q_s64(front, back));
      }
    }
  }
#endif
};

#if defined(__ARM_FEATURE_MATMUL_INT8)
#define TENON_INT8_SET neon_i8mm
#else
#define TENON_INT8_SET neon_dotprod
#endif
using DotQ8 = Dot;
using DotU8 = Dot;
using DotLevels = Dot;
using DotQ4 = Dot;
using DotUnsigned = Dot;
template <bool>
using DotCentred = Dot;
using DotSplit = Dot;

#else

#define TENON_INT8_SET neon

// `most`: steps whose products fit 16 bits together.
template <uint32_t most>
struct DotOfHalves : DotOfWords {
  static constexpr uint32_t kTileRows = 4;
  // Of each column two sums: columns 0 and 1, 2 and 3.
  struct Sum {
    int32x4_t front, back;
  };
  [[gnu::always_inline]] static Sum start(int32_t) { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  [[gnu::always_inline]] static F32 whole(Sum sum, int32_t start) {
    return converted(vpaddq_s32(sum.front, sum.back), start);
  }
  [[gnu::always_inline]] static F32 value(Sum sum, int32_t start, Scale scale) {
    return simd::mul(whole(sum, start), scale);
  }

  template <uint32_t count, uint32_t R, uint32_t vectors, class At, class Ahead>
  [[gnu::always_inline]] static void add_steps(Sum (&sum)[R][vectors], const std::byte* x,
                                               uint32_t first, const Ahead& ahead,
                                               const At& bytes) {
    constexpr uint32_t kTogether = count < most ? count : most;
#pragma GCC unroll 4
    for (uint32_t s = first; s < first + count; s += kTogether) {
      int16x8_t front[R][vectors], back[R][vectors];
#pragma GCC unroll 8
      for (uint32_t i = 0; i < kTogether; ++i) {
        ahead.step(s + i);
        Bytes w[vectors];
#pragma GCC unroll 2
        for (uint32_t v = 0; v < vectors; ++v) w[v] = bytes(v, s + i);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; ++r) {
          const int8x8_t four = broadcast_four(x + r * kRowBlockBytes + (s + i) * 4);
#pragma GCC unroll 2
          for (uint32_t v = 0; v < vectors; ++v) {
            const int8x8_t low = vget_low_s8(w[v]), high = vget_high_s8(w[v]);
            front[r][v] = i == 0 ? vmull_s8(low, four) : vmlal_s8(front[r][v], low, four);
            back[r][v] = i == 0 ? vmull_s8(high, four) : vmlal_s8(back[r][v], high, four);
          }
        }
      }
#pragma GCC unroll 4
      for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < vectors; ++v) {
          sum[r][v].front = vpadalq_s16(sum[r][v].front, front[r][v]);
          sum[r][v].back = vpadalq_s16(sum[r][v].back, back[r][v]);
        }
      }
    }
  }
};
using DotQ8 = DotOfHalves<2>;  // 2 · 128 · 127
using DotU8 = DotOfHalves<2>;
using DotLevels = DotOfHalves<2>;
using DotUnsigned = DotOfHalves<2>;
using DotQ4 = DotOfHalves<8>;  // nibbles and less: 8 · 15 · 127
template <bool>
using DotCentred = DotOfHalves<8>;  // 8 · 32 · 127, or four steps of twice as much
using DotSplit = DotQ8;

#endif

}  // namespace
}  // namespace tenon::int8
