// The micro-kernel: R rows of x times P panels, sums in registers.
//
// An output element is one lane of one register. It gathers its products one after the other in
// rising k with the same instruction, whatever R and P are, and a sum that pauses in memory between
// blocks of k is f32 there as well: so its bits do not depend on what is computed beside it.
#pragma once

#include "plugins/linear/dense/weights.h"

namespace tenon::dense {
namespace {

// R = 12: 24 sums, 2 words, 2 widened, 1 of x make 29 of 32 registers. R = 6: 12 of 16 are sums.
inline constexpr uint32_t kTileRows = simd::kRegisters == 32 ? 12 : (simd::kLanes == 8 ? 6 : 4);

// Few rows leave too few sums to hide the latency of an FMA: they take several panels at once.
constexpr uint32_t panels_at_once(uint32_t rows) {
  if (simd::kRegisters == 32) return rows == 1 ? 4 : (rows <= 5 ? 2 : 1);
  return rows == 1 ? 2 : 1;
}

// How far ahead of its use a panel is asked for: enough lines to cover the latency of memory, and
// beyond the page end where the processor's own prefetch stops.
inline constexpr uint32_t kPrefetchBytes = 2048;

// panels: P panels at the first step; x: R rows at the first step; sums: [P][R][kPanelColumns] with
// `panel_stride` floats between panels. `resume` continues the sums found there.
template <class W, uint32_t R, uint32_t P>
[[gnu::noinline]] void tile(const std::byte* const* panels, const typename W::X* const* x,
                            uint32_t steps, float* sums, uint64_t panel_stride, bool resume) {
  F32 sum[P][R][kPanelVectors];
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        sum[p][r][v] =
            resume ? simd::load(sums + p * panel_stride + r * kPanelColumns + v * simd::kLanes)
                   : simd::zero();
      }
    }
  }
  const std::byte* panel[P];
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) panel[p] = panels[p];
  const typename W::X* row[R];
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) row[r] = x[r];

  uint64_t offset = 0;
  for (uint64_t k = 0; k < uint64_t{steps} * W::kStep; k += W::kStep) {
    F32 word[P][kPanelVectors];
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        word[p][v] = W::load(panel[p] + offset + v * W::kVectorBytes);
        __builtin_prefetch(panel[p] + offset + v * W::kVectorBytes + kPrefetchBytes);
      }
    }
    offset += kPanelVectors * W::kVectorBytes;
#pragma GCC unroll 2
    for (uint32_t j = 0; j < W::kStep; ++j) {
      F32 w[P][kPanelVectors];
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kPanelVectors; ++v) w[p][v] = W::part(word[p][v], j);
      }
#pragma GCC unroll 12
      for (uint32_t r = 0; r < R; ++r) {
        const F32 value = W::broadcast(row[r] + k + j);
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 2
          for (uint32_t v = 0; v < kPanelVectors; ++v) {
            sum[p][r][v] = W::accumulate(w[p][v], value, sum[p][r][v]);
          }
        }
      }
    }
  }
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        simd::store(sums + p * panel_stride + r * kPanelColumns + v * simd::kLanes, sum[p][r][v]);
      }
    }
  }
}

template <class W>
using TileFunction = void (*)(const std::byte* const* panels, const typename W::X* const* x,
                              uint32_t steps, float* sums, uint64_t panel_stride, bool resume);

// The tile for 1 … kTileRows rows and either one panel or panels_at_once(rows).
template <class W, bool several>
TileFunction<W> tile_for(uint32_t rows) {
  constexpr auto kSome = [](uint32_t r) constexpr {
    return several ? panels_at_once(r) : 1;
  };
  switch (rows) {
    case 1:
      return tile<W, 1, kSome(1)>;
    case 2:
      return tile<W, 2, kSome(2)>;
    case 3:
      return tile<W, 3, kSome(3)>;
    case 4:
      return tile<W, 4, kSome(4)>;
    default:
      break;
  }
  if constexpr (kTileRows > 4) {
    if (rows == 5) return tile<W, 5, kSome(5)>;
    if (rows == 6) return tile<W, 6, kSome(6)>;
  }
  if constexpr (kTileRows > 6) {
    switch (rows) {
      case 7:
        return tile<W, 7, kSome(7)>;
      case 8:
        return tile<W, 8, kSome(8)>;
      case 9:
        return tile<W, 9, kSome(9)>;
      case 10:
        return tile<W, 10, kSome(10)>;
      case 11:
        return tile<W, 11, kSome(11)>;
      default:
        return tile<W, 12, kSome(12)>;
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace tenon::dense
