// FP8 weights in pairs of bf16: every E4M3 is a bf16, so the instruction that multiplies two pairs
// a lane takes them as they are, and x as bf16.
//
//   y = Σ over headers  scale · (Σ of pairs, in f32, from zero)
//
// A step's four values make two pairs, of its values 0 and 2 and of 1 and 3: that is how bytes
// become halves without crossing lanes, and rows of x are prepared in the same order
// (RowForm::crossed). An output's sums run in rising steps, whatever is computed beside it.
#pragma once

#include <tenon/sdk/linear/quant_steps.h>

#include <array>
#include <utility>

#include "plugins/linear/dense/multiply.h"

namespace tenon::dense {
namespace {

using Float8Steps = sdk::QuantSteps<sdk::Float8Block<32>, kPanelVectors>;
inline constexpr uint32_t kGroupSteps = sdk::kQuantGroupValues / 4;
// Rows that are multiplied by weights in the form of the panel; more of them share widened ones.
inline constexpr uint32_t kFloat8Rows = 8;

// E4M3 in the low (`odd` false) or high bytes of halves, as bf16. Its exponent is 120 less, and the
// dot product takes numbers without a leading one for zero: so those of E4M3 come from a table.
template <bool odd>
[[gnu::always_inline]] inline __m512i float8_halves(__m512i bytes) {
  const __m512i levels = _mm512_castsi128_si512(
      _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
  const __m512i moved = odd ? _mm512_srli_epi16(bytes, 4) : _mm512_slli_epi16(bytes, 4);
  const __m512i magnitude = _mm512_add_epi16(_mm512_and_si512(moved, _mm512_set1_epi16(0x07f0)),
                                             _mm512_set1_epi16(120 << 7));
  const __mmask32 small = _mm512_testn_epi16_mask(bytes, _mm512_set1_epi16(odd ? 0x7800 : 0x78));
  // The permutation reads five bits of an index, of which small numbers have the lower three.
  const __m512i index = odd ? _mm512_srli_epi16(bytes, 8) : bytes;
  const __m512i all = _mm512_mask_permutexvar_epi16(magnitude, small, index, levels);
  const __m512i signs = odd ? bytes : _mm512_slli_epi16(bytes, 8);
  constexpr int kFirstOrSignOfSecond = 0xf8;  // a | (b & c)
  return _mm512_ternarylogic_epi32(all, signs, _mm512_set1_epi16(int16_t{-0x8000}),
                                   kFirstOrSignOfSecond);
}

// As the panel stores it: a header of scales, then groups of 32 values.
struct PackedFloat8 {
  static constexpr bool kPacked = true;
  static constexpr uint64_t kGroupBytes = Float8Steps::kGroupBytes;
  template <bool odd>
  [[gnu::always_inline]] static F32 pairs(const std::byte* group, uint32_t s, uint32_t v) {
    const std::byte* from = group + (s * kPanelVectors + v) * sizeof(F32);
    return (F32)float8_halves<odd>(_mm512_loadu_si512(from));
  }
};
// With groups as pairs, made once for all rows of a pass.
struct WidenedFloat8 {
  static constexpr bool kPacked = false;
  static constexpr uint64_t kGroupBytes = 2 * Float8Steps::kGroupBytes;
  template <bool odd>
  [[gnu::always_inline]] static F32 pairs(const std::byte* group, uint32_t s, uint32_t v) {
    return simd::load(group + ((2 * s + odd) * kPanelVectors + v) * sizeof(F32));
  }
};
static_assert(Float8Steps::kSmallBytes == 0);

template <uint32_t R, uint32_t P>
using PairSums = F32[P][R][kPanelVectors];

// For what comes behind step s of each panel.
template <uint32_t P>
[[gnu::always_inline]] inline void ask_ahead(const std::byte* const (&group)[P], uint32_t s,
                                             uint32_t near_bytes) {
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      ask_behind<P>(group[p] + (s * kPanelVectors + v) * sizeof(F32), near_bytes);
    }
  }
}

// Half a step. group: of each panel.
template <class L, bool odd, uint32_t R, uint32_t P>
[[gnu::always_inline]] inline void add_pairs(const std::byte* const (&group)[P], uint32_t s,
                                             const uint32_t* x, PairSums<R, P>& sum) {
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
    F32 w[kPanelVectors];
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) w[v] = L::template pairs<odd>(group[p], s, v);
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const F32 value = Bf16DotWeights::broadcast(x + r * kPairStride + 2 * s + odd);
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        sum[p][r][v] = Bf16DotWeights::accumulate(w[v], value, sum[p][r][v]);
      }
    }
  }
}

// R rows of x times P panels; task.steps in pairs of k.
template <class L, uint32_t R, uint32_t P>
[[gnu::noinline]] void float8_tile(const TileTask& task) {
  const std::byte* block[P];
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) block[p] = task.panel + p * task.panel_bytes;
  const auto* x = static_cast<const uint32_t*>(task.x);
  const uint32_t groups = task.steps * 2 / sdk::kQuantGroupValues;
  const std::byte* ahead = task.ahead;
  const uint32_t lines = L::kPacked ? 0 : (task.ahead_lines + groups - 1) / groups;
  bool resume = task.resume;
  for (uint32_t left = groups; left > 0; left -= task.block_groups, resume = true) {
    PairSums<R, P> sum;
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 12
      for (uint32_t r = 0; r < R; ++r) sum[p][r][0] = sum[p][r][1] = simd::zero();
    }
    const std::byte* group[P];
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) group[p] = block[p] + Float8Steps::kHeaderBytes;
    for (uint32_t g = 0; g < task.block_groups; ++g) {
      for (uint32_t i = 0; i < lines; ++i, ahead += 64) __builtin_prefetch(ahead, 0, 2);
#pragma GCC unroll 2
      for (uint32_t s = 0; s < kGroupSteps; ++s) {
        if constexpr (L::kPacked) ask_ahead<P>(group, s, task.near_bytes);
        add_pairs<L, false, R, P>(group, s, x, sum);
        add_pairs<L, true, R, P>(group, s, x, sum);
      }
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) group[p] += L::kGroupBytes;
      x += sdk::kQuantGroupValues / 2;
    }
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const F32 scale = simd::load(reinterpret_cast<const float*>(block[p]) + v * simd::kLanes);
#pragma GCC unroll 12
        for (uint32_t r = 0; r < R; ++r) {
          float* total = task.sums + p * task.sums_stride + r * kPanelColumns + v * simd::kLanes;
          simd::store(total,
                      simd::fma(sum[p][r][v], scale, resume ? simd::load(total) : simd::zero()));
        }
      }
      block[p] = group[p];
    }
  }
}

// One block of one panel as the widened tile reads it.
inline void widen_float8(const std::byte* from, uint32_t groups, uint32_t block_groups,
                         std::byte* to) {
  for (uint32_t left = groups; left > 0; left -= block_groups) {
    __builtin_memcpy(to, from, Float8Steps::kHeaderBytes);
    from += Float8Steps::kHeaderBytes;
    to += Float8Steps::kHeaderBytes;
    for (uint32_t i = 0; i < block_groups * kGroupSteps; ++i) {
      for (uint32_t v = 0; v < kPanelVectors; ++v, from += sizeof(F32)) {
        const __m512i bytes = _mm512_loadu_si512(from);
        _mm512_storeu_si512(to + v * sizeof(F32), float8_halves<false>(bytes));
        _mm512_storeu_si512(to + (kPanelVectors + v) * sizeof(F32), float8_halves<true>(bytes));
      }
      to += 2 * kPanelVectors * sizeof(F32);
    }
  }
}

template <class L, bool alone, uint32_t... rows>
constexpr auto float8_tiles(std::integer_sequence<uint32_t, rows...>) {
  return std::array<TileFunction, sizeof...(rows)>{&float8_tile < L, rows + 1,
                                                   alone ? panels_at_once(rows + 1) : 1 > ...};
}
template <class L, uint32_t most_rows, bool alone>
TileFunction float8_tile_for(uint32_t rows) {
  static constexpr auto kTiles =
      float8_tiles<L, alone>(std::make_integer_sequence<uint32_t, most_rows>());
  return kTiles[rows - 1];
}

// What multiply() walks with: x in crossed pairs, steps of one pair.
struct Float8Pairs : Bf16DotWeights {
  using Steps = Float8Steps;
  static constexpr uint64_t bytes_of_groups(uint32_t groups, uint32_t block_groups) {
    return QuantWeights<sdk::Float8Block<32>>::bytes_of_groups(groups, block_groups);
  }
  // All rows of a pass times one block, of one panel or, `alone`, of those of one tile.
  static void multiply_block(const MultiplyTask& job, TileTask task, uint32_t rows, bool alone) {
    if (rows <= kFloat8Rows) {
      return (alone ? float8_tile_for<PackedFloat8, kFloat8Rows, true>(rows)
                    : float8_tile_for<PackedFloat8, kFloat8Rows, false>(rows))(task);
    }
    auto* widened = reinterpret_cast<std::byte*>(job.scratch + kWidenedAt);
    widen_float8(task.panel, task.steps * 2 / sdk::kQuantGroupValues, task.block_groups, widened);
    task.panel = widened;
    in_row_tiles<Float8Pairs>(task, rows, [](uint32_t count) {
      return float8_tile_for<WidenedFloat8, kTileRows, false>(count);
    });
  }
};
static_assert(panels_at_once(kFloat8Rows + 1) == 1, "a widened block is one panel's");

}  // namespace
}  // namespace tenon::dense
