// The micro-kernel: R rows of x times one panel, a block of k at a time.
//
// An output element is one lane of one register. A group's sum is exact in 32 bits; the groups are
// added in f32 in rising k with the same two instructions, whatever R is, and a sum that pauses in
// memory is f32 there as well: so its bits do not depend on what is computed beside it.
#pragma once

#include <utility>

#include "plugins/linear/int8/dot.h"

namespace tenon::int8 {
namespace {

inline constexpr uint32_t kPanelVectors = 2;  // two: four values of x are loaded once for two dots
inline constexpr uint32_t kPanelColumns = kPanelVectors * simd::kLanes;
inline constexpr uint32_t kVectorBytes = simd::kLanes * 4;

// R = 7: 14 sums of bytes, 14 of f32, 2 vectors of weights and 1 of x make 31 of 32 registers. Of
// 16, 8 are sums of bytes and those of f32 stay in memory.
inline constexpr uint32_t kTileRows = simd::kRegisters == 32 ? 7 : 4;
inline constexpr uint32_t kKeptRows = simd::kRegisters == 32 ? 7 : 2;

// How a group of a panel is read. `part(word, h)` are the bytes of step kSteps·j + h.
struct PackedQ8 {
  using Product = DotQ8;
  static constexpr Format kFormat = Format::q8_0;
  static constexpr uint32_t kSteps = 1;  // of four k in a loaded word
  static constexpr uint64_t kScaleBytes = kPanelColumns * 2;
  [[gnu::always_inline]] static F32 scale(const std::byte* group, uint32_t v) {
    return simd::load_f16(group + v * simd::kLanes * 2);
  }
  [[gnu::always_inline]] static Bytes part(Bytes word, uint32_t) { return word; }
};
struct PackedQ4 : PackedQ8 {
  using Product = DotQ4;
  static constexpr Format kFormat = Format::q4_0;
  static constexpr uint32_t kSteps = 2;
  [[gnu::always_inline]] static Bytes part(Bytes word, uint32_t h) {
    return h == 0 ? low_nibbles(word) : high_nibbles(word);
  }
};
// Nibbles as bytes and scales as f32, made once a block when many rows read it.
template <class Packed>
struct Widened : Packed {
  static constexpr uint32_t kSteps = 1;
  static constexpr uint64_t kScaleBytes = kPanelColumns * 4;
  [[gnu::always_inline]] static F32 scale(const std::byte* group, uint32_t v) {
    return simd::load(group + v * simd::kLanes * 4);
  }
  [[gnu::always_inline]] static Bytes part(Bytes word, uint32_t) { return word; }
};
template <class L>
inline constexpr uint64_t kGroupBytes = L::kScaleBytes + uint64_t{kPanelColumns} * 32 / L::kSteps;

struct TileTask {
  const std::byte* panel = nullptr;  // the block's first group
  const std::byte* x = nullptr;      // the first row's first group; rows kRowBlockBytes apart
  uint32_t groups = 0;
  uint32_t block_groups = 1;  // that share a header
  float* sums = nullptr;      // [R][kPanelColumns]
  bool resume = false;        // continue the sums found there
  // Asked for while this block is multiplied: `ahead_lines` cache lines for each group.
  const std::byte* ahead = nullptr;
  uint64_t ahead_stride = 0;
  uint32_t ahead_lines = 0;
  // One row, where the processor fetches by itself: scattered groups' lines are asked for in turn.
  bool in_turn = false;
};

template <class L, uint32_t R>
[[gnu::noinline]] void tile(const TileTask& task) {
  using D = typename L::Product;
  constexpr bool kKept = R <= kKeptRows;
  float* sums = task.sums;
  F32 kept[kKept ? R : 1][kPanelVectors];
  if constexpr (kKept) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        kept[r][v] =
            task.resume ? simd::load(sums + r * kPanelColumns + v * simd::kLanes) : simd::zero();
      }
    }
  } else if (!task.resume) {
    for (uint32_t i = 0; i < R * kPanelColumns; i += simd::kLanes) {
      simd::store(sums + i, simd::zero());
    }
  }
  const std::byte* group = task.panel;
  const std::byte* x = task.x;
  const std::byte* ahead = task.ahead;
  const uint32_t ahead_lines = task.ahead_lines;
  const uint64_t ahead_stride = task.ahead_stride;
  for (uint32_t left = task.groups; left > 0; --left) {
    for (uint32_t i = 0; i < ahead_lines; ++i) __builtin_prefetch(ahead + 64 * i, 0, 2);
    ahead += ahead_stride;
    typename D::Sum sum[R][kPanelVectors];
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const auto* row = reinterpret_cast<const RowGroup*>(x + r * kRowBlockBytes);
      sum[r][0] = D::start(row->start[static_cast<uint32_t>(L::kFormat)]);
      sum[r][1] = sum[r][0];
    }
    const std::byte* words = group + L::kScaleBytes;
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8 / L::kSteps; ++j) {
      Bytes word[kPanelVectors];
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        word[v] = load_bytes(words + (j * kPanelVectors + v) * kVectorBytes);
      }
#pragma GCC unroll 2
      for (uint32_t h = 0; h < L::kSteps; ++h) {
        typename D::Weights w[kPanelVectors];
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kPanelVectors; ++v) w[v] = D::weights(L::part(word[v], h));
#pragma GCC unroll 12
        for (uint32_t r = 0; r < R; ++r) {
          const auto four = D::broadcast(x + r * kRowBlockBytes + (j * L::kSteps + h) * 4);
#pragma GCC unroll 2
          for (uint32_t v = 0; v < kPanelVectors; ++v) sum[r][v] = D::add(sum[r][v], w[v], four);
        }
      }
    }
    typename D::Scale scale[kPanelVectors];
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) scale[v] = D::scale(L::scale(group, v));
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const auto* row = reinterpret_cast<const RowGroup*>(x + r * kRowBlockBytes);
      const F32 x_scale = simd::set1(row->scale);
      const int32_t start = row->start[static_cast<uint32_t>(L::kFormat)];
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const F32 value = D::value(sum[r][v], start, scale[v]);
        if constexpr (kKept) {
          kept[r][v] = simd::fma(value, x_scale, kept[r][v]);
        } else {
          float* at = sums + r * kPanelColumns + v * simd::kLanes;
          simd::store(at, simd::fma(value, x_scale, simd::load(at)));
        }
      }
    }
    group += kGroupBytes<L>;
    x += sizeof(RowGroup);
  }
  if constexpr (kKept) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        simd::store(sums + r * kPanelColumns + v * simd::kLanes, kept[r][v]);
      }
    }
  }
}

using TileFunction = void (*)(const TileTask& task);

template <class L, uint32_t... rows>
constexpr TileFunction pick_tile(uint32_t count, std::integer_sequence<uint32_t, rows...>) {
  constexpr TileFunction kTiles[] = {&tile<L, rows + 1>...};
  return kTiles[count - 1];
}
// The tile for 1 … kTileRows rows.
template <class L>
TileFunction tile_for(uint32_t rows) {
  return pick_tile<L>(rows, std::make_integer_sequence<uint32_t, kTileRows>());
}

}  // namespace
}  // namespace tenon::int8
