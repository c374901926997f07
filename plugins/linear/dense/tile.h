// The micro-kernel: R rows of x times P panels, sums in registers.
//
// An output element is one lane of one register. It gathers its products one after the other in
// rising k with the same instruction, whatever R and P are, and a sum that pauses in memory between
// blocks of k is f32 there as well: so its bits do not depend on what is computed beside it.
#pragma once

#include <utility>

#include "plugins/linear/dense/kernels.h"
#include "plugins/linear/dense/quant_weights.h"
#include "plugins/linear/dense/weights.h"

namespace tenon::dense {

// The tiles of each format that has its own, from tiles.cc.in, for 1 … kTileRows rows: `alone` with
// panels_at_once(rows) panels, or `shared`, one of several tiles of one panel. Those of f32 serve
// all formats, for weights that they have widened.
namespace TENON_SIMD_SET {
TileFunction alone_f32(uint32_t rows);
TileFunction shared_f32(uint32_t rows);
TileFunction alone_f16(uint32_t rows);
TileFunction shared_f16(uint32_t rows);
TileFunction alone_bf16(uint32_t rows);
TileFunction shared_bf16(uint32_t rows);
TileFunction alone_q8_0(uint32_t rows);
TileFunction shared_q8_0(uint32_t rows);
TileFunction alone_q4_0(uint32_t rows);
TileFunction shared_q4_0(uint32_t rows);
}  // namespace TENON_SIMD_SET

namespace {

// R = 12: 24 sums, 2 words, 2 widened, 1 of x make 29 of 32 registers. R = 6: 12 of 16 are sums.
inline constexpr uint32_t kTileRows = simd::kRegisters == 32 ? 12 : (simd::kLanes == 8 ? 6 : 4);

// Few rows leave too few sums to hide the latency of an FMA: they take several panels at once.
constexpr uint32_t panels_at_once(uint32_t rows) {
  if (simd::kRegisters == 32) return rows == 1 ? 4 : (rows <= 5 ? 2 : 1);
  return rows == 1 ? 2 : 1;
}

// A tile that has its panels to itself asks for them TileTask::near_bytes ahead of their use. One
// panel comes to the second cache, from further ahead, since many rows take long over a line and
// the first cache is small.
inline constexpr uint32_t kFarBytes = 4096;
// Tiles that share a block ask for their part of the next one, every so many steps.
inline constexpr uint32_t kRoundSteps = 16;

// What a tile of P panels that has them to itself asks for when it reads a vector at `from`.
template <uint32_t P>
[[gnu::always_inline]] inline void ask_behind(const std::byte* from, uint32_t near_bytes) {
  if constexpr (P > 1) {
    __builtin_prefetch(from + near_bytes);
  } else {
    __builtin_prefetch(from + kFarBytes, 0, 2);
  }
}

// Whether a tile asks at this step: for every vector where few make a line, else once a line.
template <class W>
constexpr bool asks_at(uint32_t step, uint32_t vector) {
  constexpr uint32_t kStepBytes = kPanelVectors * W::kVectorBytes;
  if (simd::kLanes > 4 || kStepBytes >= 64) return true;
  return vector == 0 && step % (64 / kStepBytes) == 0;
}

template <class W>
inline constexpr uint32_t kXStride = __is_same(typename W::X, float) ? kF32Stride : kPairStride;

// `alone`: no other tile multiplies this block.
template <class W, uint32_t R, uint32_t P, bool alone>
[[gnu::noinline]] void tile(const TileTask& task) {
  F32 sum[P][R][kPanelVectors];
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const float* from = task.sums + p * task.sums_stride + r * kPanelColumns;
        sum[p][r][v] = task.resume ? simd::load(from + v * simd::kLanes) : simd::zero();
      }
    }
  }
  const std::byte* panel[P];
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) panel[p] = task.panel + p * task.panel_bytes;
  const auto* x = static_cast<const typename W::X*>(task.x);
  const std::byte* ahead = task.ahead;
  F32 scale[P][kPanelVectors] = {};
  const uint32_t rounds = (task.steps + kRoundSteps - 1) / kRoundSteps;
  const uint32_t lines = (task.ahead_lines + rounds - 1) / rounds;

  for (uint32_t left = task.steps; left > 0;) {
    if constexpr (!alone) {
      for (uint32_t i = 0; i < lines; ++i, ahead += 64) __builtin_prefetch(ahead, 0, 2);
    }
    const uint32_t now = left < kRoundSteps ? left : kRoundSteps;
    left -= now;
    for (uint32_t step = 0; step < now; ++step) {
      if constexpr (W::kScaleSteps > 0) {
        if (step % W::kScaleSteps == 0) {
#pragma GCC unroll 4
          for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
            for (uint32_t v = 0; v < kPanelVectors; ++v) {
              scale[p][v] = simd::load_f16(panel[p] + v * simd::kLanes * 2);
            }
            panel[p] += kPanelColumns * 2;
          }
        }
      }
      F32 word[P][kPanelVectors];
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kPanelVectors; ++v) {
          word[p][v] = W::load(panel[p] + v * W::kVectorBytes);
          if constexpr (alone) {
            if (asks_at<W>(step, v)) {
              ask_behind<P>(panel[p] + v * W::kVectorBytes, task.near_bytes);
            }
          }
        }
        panel[p] += kPanelVectors * W::kVectorBytes;
      }
#pragma GCC unroll 8
      for (uint32_t j = 0; j < W::kStep; ++j) {
        F32 w[P][kPanelVectors];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
          for (uint32_t v = 0; v < kPanelVectors; ++v) {
            w[p][v] = part_of<W>(word[p][v], j, scale[p][v]);
          }
        }
#pragma GCC unroll 12
        for (uint32_t r = 0; r < R; ++r) {
          const F32 value = W::broadcast(x + r * kXStride<W> + j);
#pragma GCC unroll 4
          for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
            for (uint32_t v = 0; v < kPanelVectors; ++v) {
              sum[p][r][v] = W::accumulate(w[p][v], value, sum[p][r][v]);
            }
          }
        }
      }
      x += W::kStep;
    }
  }
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        float* to = task.sums + p * task.sums_stride + r * kPanelColumns;
        simd::store(to + v * simd::kLanes, sum[p][r][v]);
      }
    }
  }
}

template <class W, bool alone, uint32_t... rows>
constexpr TileFunction pick_tile(uint32_t count, std::integer_sequence<uint32_t, rows...>) {
  constexpr TileFunction kTiles[] = {&tile < W, rows + 1, alone ? panels_at_once(rows + 1) : 1,
                                     alone > ...};
  return kTiles[count - 1];
}
template <class W, bool alone>
TileFunction make_tiles(uint32_t rows) {
  return pick_tile<W, alone>(rows, std::make_integer_sequence<uint32_t, kTileRows>());
}

// Where the tiles of W are; bf16 dot products have them in their own source.
template <class W>
struct Tiles {
  static constexpr TileFunction (*kAlone)(uint32_t) = &make_tiles<W, true>;
  static constexpr TileFunction (*kShared)(uint32_t) = &make_tiles<W, false>;
};
template <>
struct Tiles<F32Weights> {
  static constexpr TileFunction (*kAlone)(uint32_t) = &TENON_SIMD_SET::alone_f32;
  static constexpr TileFunction (*kShared)(uint32_t) = &TENON_SIMD_SET::shared_f32;
};
template <>
struct Tiles<F16Weights> {
  static constexpr TileFunction (*kAlone)(uint32_t) = &TENON_SIMD_SET::alone_f16;
  static constexpr TileFunction (*kShared)(uint32_t) = &TENON_SIMD_SET::shared_f16;
};
template <>
struct Tiles<Bf16Weights> {
  static constexpr TileFunction (*kAlone)(uint32_t) = &TENON_SIMD_SET::alone_bf16;
  static constexpr TileFunction (*kShared)(uint32_t) = &TENON_SIMD_SET::shared_bf16;
};
template <>
struct Tiles<QuantWeights<sdk::Q8Block>> {
  static constexpr TileFunction (*kAlone)(uint32_t) = &TENON_SIMD_SET::alone_q8_0;
  static constexpr TileFunction (*kShared)(uint32_t) = &TENON_SIMD_SET::shared_q8_0;
};
template <>
struct Tiles<QuantWeights<sdk::Q4Block>> {
  static constexpr TileFunction (*kAlone)(uint32_t) = &TENON_SIMD_SET::alone_q4_0;
  static constexpr TileFunction (*kShared)(uint32_t) = &TENON_SIMD_SET::shared_q4_0;
};

template <class W, bool alone>
TileFunction tile_for(uint32_t rows) {
  return alone ? Tiles<W>::kAlone(rows) : Tiles<W>::kShared(rows);
}

}  // namespace
}  // namespace tenon::dense
