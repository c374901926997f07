// The micro-kernel for formats whose values have a scale for 16 of them, a minimum, or other
// numbers of bits than 8 and 4: R rows of x times one panel, as tile.h, with the groups of
// blocks.h.
//
//   y += scale · (Σ q·x) · x_scale   for each scale of a group; of joined halves once, for the sum
//                                    of both times their small scales
//   y += bias · (Σ x)                for each bias
//
// where q are the stored bytes, unsigned, and Σ x is of the rounded values, known from prepare.
// Where all columns have one zero, what it adds to a sum is taken back where it starts, and there
// is no bias.
#pragma once

#include "plugins/linear/int8/blocks.h"

namespace tenon::int8 {
namespace {

// What a sum over half of a group starts with, for bytes that are 32 too large.
[[gnu::always_inline]] inline int32_t half_start(const RowGroup& row, uint32_t which) {
  const int32_t start = row.half_start[which];
  return kLaneStarts ? static_cast<int16_t>(start) + (start >> 16) : start;
}

// What a sum of bytes that are `offset` too large starts with, over a group or over half of it.
template <int32_t offset, uint32_t scales>
[[gnu::always_inline]] inline int32_t start_of(const RowGroup& row, uint32_t which) {
  static_assert(kStoredOffset[1] == 8);
  constexpr int32_t kKnown = scales == 2 ? 32 : 8;
  if constexpr (offset == 0) return kStartBits;
  if constexpr (scales == 1 && offset == static_cast<int32_t>(kStoredOffset[0])) {
    return row.start[0];
  }
  const int32_t known = (scales == 2 ? half_start(row, which) : row.start[1]) - kStartBits;
  if constexpr (offset % kKnown == 0) return kStartBits + known * (offset / kKnown);
  // A multiple of what it is shifted by.
  return kStartBits + (known >> (scales == 2 ? 5 : 3)) * offset;
}

// Sums of a group's first half, times their scales, until the second one joins them.
template <class L, uint32_t R>
struct FirstHalves {
  F32 sums[L::kJoinedSums ? R : 1][kPanelVectors];
};

// The part of a group that has scale `which`.
template <class L, uint32_t R>
[[gnu::always_inline]] inline void add_part(const std::byte* block, const std::byte* group,
                                            const std::byte* small, const std::byte* x,
                                            uint32_t which, const Ahead<L, R>& ahead,
                                            FirstHalves<L, R>& halves, TileSums<R>& sums) {
  using D = typename L::Product;
  static_assert(L::kBiases == 0 || L::kScales == 1 || L::kJoinedSums);  // added once a group
  constexpr uint32_t kSteps = 8 / L::kScales;
  const auto row = [x](uint32_t r) {
    return reinterpret_cast<const RowGroup*>(x + r * kRowBlockBytes);
  };
  const auto start = [&](uint32_t r) {
    if constexpr (kLaneStarts && kCentred<typename L::Block>) {
      return L::kScales == 2 ? row(r)->half_start[which] : row(r)->start[0];
    } else {
      return start_of<start_offset<typename L::Block>(), L::kScales>(*row(r), which);
    }
  };
  typename D::Sum sum[R][kPanelVectors];
  begin_sums<L>(sum, group, start);
  if constexpr (kAddsSteps<D>) {
    D::template add_steps<kSteps>(sum, x, which * kSteps, ahead, [&](uint32_t v, uint32_t s) {
      return (Bytes)L::step(group, small, v, s);
    });
  } else {
#pragma GCC unroll 8
    for (uint32_t s = which * kSteps; s < (which + 1) * kSteps; ++s) {
      ahead.step(s);
      typename D::Weights w[kPanelVectors];
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const auto bytes = (Bytes)L::step(group, small, v, s);
        if constexpr (is_split<L>()) {
          w[v] = {bytes, L::signs(group, v, s)};
        } else {
          w[v] = D::weights(bytes);
        }
      }
#pragma GCC unroll 12
      for (uint32_t r = 0; r < R; ++r) {
        const auto four = D::broadcast(x + r * kRowBlockBytes + s * 4);
#pragma GCC unroll 2
        for (uint32_t v = 0; v < kPanelVectors; ++v) sum[r][v] = D::add(sum[r][v], w[v], four);
      }
    }
  }
  TileSums<R>::forget();
  if constexpr (L::kJoinedSums) {
    if (which == 0) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const F32 factor = L::scale(block, small, v, 0);
#pragma GCC unroll 12
        for (uint32_t r = 0; r < R; ++r) {
          halves.sums[r][v] = simd::mul(D::whole(sum[r][v], start(r)), factor);
        }
      }
      return;
    }
  }
#pragma GCC unroll 2
  for (uint32_t v = 0; v < kPanelVectors; ++v) {
    const F32 factor = L::scale(block, small, v, which);
    const auto scale = D::scale(factor);
    F32 bias[2] = {};
    if constexpr (L::kBiases > 0) bias[0] = L::bias(block, small, v, 0, factor);
    if constexpr (L::kBiases > 1) bias[1] = L::bias(block, small, v, 1, factor);
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      // The group's sum times the scale of its weights.
      F32 value;
      if constexpr (L::kJoinedSums) {
        const F32 whole = simd::fma(D::whole(sum[r][v], start(r)), factor, halves.sums[r][v]);
        value = simd::mul(whole, L::joined_scale(block, small, v));
      } else {
        value = D::value(sum[r][v], start(r), scale);
      }
      F32 total = simd::fma(value, simd::set1(row(r)->scale), sums.get(r, v));
      if constexpr (L::kBiases == 1) total = simd::fma(bias[0], simd::set1(row(r)->sum), total);
      if constexpr (L::kBiases == 2) {
        total = simd::fma(bias[0], simd::set1(row(r)->half_sum[0]), total);
        total = simd::fma(bias[1], simd::set1(row(r)->half_sum[1]), total);
      }
      sums.set(r, v, total);
    }
  }
}

template <class L, uint32_t R>
[[gnu::noinline]] void quant_tile(const TileTask& task) {
  TileSums<R> sums{};
  sums.memory = task.sums;
  sums.begin(task.resume);
  const std::byte* block = task.panel;
  const std::byte* x = task.x;
  Ahead<L, R> ahead(task);
  const uint32_t each = L::block_groups(task.block_groups);
  for (uint32_t left = task.groups; left > 0; left -= each) {
    const std::byte* group = block + L::kHeaderBytes;
    for (uint32_t g = 0; g < each; ++g) {
      ahead.begin_group();
      if constexpr (kScattered<typename L::Block>) {
        for (uint32_t at = 0; task.in_turn && at < L::kGroupBytes; at += 64) {
          __builtin_prefetch(group + at);
        }
      }
      const std::byte* small = L::small_of(block, group, g);
      FirstHalves<L, R> halves;
      add_part<L, R>(block, group, small, x, 0, ahead, halves, sums);
      if constexpr (L::kScales == 2) add_part<L, R>(block, group, small, x, 1, ahead, halves, sums);
      group += L::kGroupBytes;
      x += sizeof(RowGroup);
    }
    block = group;
  }
  sums.end();
}

template <class L, uint32_t... rows>
constexpr TileFunction pick_quant_tile(uint32_t count, std::integer_sequence<uint32_t, rows...>) {
  constexpr TileFunction kTiles[] = {&quant_tile<L, rows + 1>...};
  return kTiles[count - 1];
}
template <class L>
requires IsBlocks<L> TileFunction tile_for(uint32_t rows) {
  return pick_quant_tile<L>(rows, std::make_integer_sequence<uint32_t, kMostRows<L>>());
}

}  // namespace
}  // namespace tenon::int8
