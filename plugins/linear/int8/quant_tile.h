// The micro-kernel for formats whose values have a scale for 16 of them, a minimum, or other
// numbers of bits than 8 and 4: R rows of x times one panel, as tile.h, with the groups of
// sdk/linear/quant_steps.h.
//
//   y += scale · (Σ q·x) · x_scale   for each scale of a group, then   y += bias · (Σ x)
//
// where q are the stored bytes, unsigned, and Σ x is of the rounded values, known from prepare.
// With two scales a group, what `zero` adds to a sum is taken back where it starts, and there is no
// bias.
#pragma once

#include <tenon/sdk/linear/quant_steps.h>

#include "plugins/linear/int8/tile.h"

namespace tenon::int8 {
namespace {

// As the panel stores it. F: the struct of the format.
template <class F>
struct PackedBlocks : sdk::QuantSteps<F, kPanelVectors> {
  using Block = F;
  static constexpr Format kFormat = F::kShape.format;
  static constexpr bool kBiased = sdk::QuantSteps<F, kPanelVectors>::kScales == 1;
};

// Bytes, scales and biases as f32, made once a block of k when many rows read it.
template <class F>
struct WidenedBlocks {
  using Packed = PackedBlocks<F>;
  using Block = F;
  static constexpr Format kFormat = Packed::kFormat;
  static constexpr bool kBiased = Packed::kBiased;
  static constexpr uint32_t kGroups = 1;
  static constexpr uint32_t kScales = Packed::kScales;
  static constexpr uint64_t kBytesAt = 2 * uint64_t{kPanelColumns} * 4;
  static constexpr uint64_t kHeaderBytes = 0;
  static constexpr uint64_t kGroupBytes =
      kBytesAt + uint64_t{kPanelColumns} * sdk::kQuantGroupValues;
  static constexpr uint64_t kBlockBytes = kGroupBytes;

  [[gnu::always_inline]] static F32 scale(const std::byte*, const std::byte* group, uint32_t v,
                                          uint32_t which) {
    return simd::load(group + (which * kPanelVectors + v) * kVectorBytes);
  }
  [[gnu::always_inline]] static F32 bias(const std::byte*, const std::byte* group, uint32_t v,
                                         F32) {
    return simd::load(group + (kPanelVectors + v) * kVectorBytes);
  }
  [[gnu::always_inline]] static sdk::StepBytes step(const std::byte* group, uint32_t v,
                                                    uint32_t s) {
    return (sdk::StepBytes)simd::load(group + kBytesAt + (s * kPanelVectors + v) * kVectorBytes);
  }
};
inline constexpr uint64_t kWidestGroupBytes =
    uint64_t{kPanelColumns} * (sdk::kQuantGroupValues + 8);

template <class L>
concept IsBlocks = requires {
  typename L::Block;
};

// `groups` groups of a panel, whole blocks, widened.
template <class L>
requires IsBlocks<L>
const std::byte* widen(const std::byte* block, uint32_t groups, std::byte* to) {
  using W = WidenedBlocks<typename L::Block>;
  static_assert(W::kGroupBytes <= kWidestGroupBytes);
  std::byte* out = to;
  for (; groups > 0; groups -= L::kGroups, block += L::kBlockBytes) {
    const std::byte* group = block + L::kHeaderBytes;
    for (uint32_t g = 0; g < L::kGroups; ++g, group += L::kGroupBytes, out += W::kGroupBytes) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const F32 first = L::scale(block, group, v, 0);
        const F32 second =
            L::kBiased ? L::bias(block, group, v, first) : L::scale(block, group, v, 1);
        store_bytes((Bytes)first, out + v * kVectorBytes);
        store_bytes((Bytes)second, out + (kPanelVectors + v) * kVectorBytes);
#pragma GCC unroll 8
        for (uint32_t s = 0; s < 8; ++s) {
          store_bytes((Bytes)L::step(group, v, s),
                      out + W::kBytesAt + (s * kPanelVectors + v) * kVectorBytes);
        }
      }
    }
  }
  return to;
}

// The f32 sums of a tile: in registers where there are enough, else in memory.
template <uint32_t R>
struct TileSums {
  static constexpr bool kKept = R <= kKeptRows;
  float* memory;
  F32 kept[kKept ? R : 1][kPanelVectors];

  [[gnu::always_inline]] float* at(uint32_t r, uint32_t v) const {
    return memory + r * kPanelColumns + v * simd::kLanes;
  }
  [[gnu::always_inline]] void begin(bool resume) {
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const F32 first = resume ? simd::load(at(r, v)) : simd::zero();
        if constexpr (kKept) {
          kept[r][v] = first;
        } else {
          simd::store(at(r, v), first);
        }
      }
    }
  }
  [[gnu::always_inline]] void add(uint32_t r, uint32_t v, F32 a, F32 b) {
    if constexpr (kKept) {
      kept[r][v] = simd::fma(a, b, kept[r][v]);
    } else {
      simd::store(at(r, v), simd::fma(a, b, simd::load(at(r, v))));
    }
  }
  [[gnu::always_inline]] void end() {
    if constexpr (!kKept) return;
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) simd::store(at(r, v), kept[r][v]);
    }
  }
};

// The part of a group that has scale `which`.
template <class L, uint32_t R>
[[gnu::always_inline]] inline void add_part(const std::byte* block, const std::byte* group,
                                            const std::byte* x, uint32_t which, TileSums<R>& sums) {
  using D = DotOfBits<L::Block::kShape.bits>;
  constexpr uint32_t kSteps = 8 / L::kScales;
  const auto row = [x](uint32_t r) {
    return reinterpret_cast<const RowGroup*>(x + r * kRowBlockBytes);
  };
  typename D::Sum sum[R][kPanelVectors];
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) {
    sum[r][0] = sum[r][1] = D::start(L::kBiased ? kStartBits : row(r)->half_start[which]);
  }
#pragma GCC unroll 8
  for (uint32_t s = which * kSteps; s < (which + 1) * kSteps; ++s) {
    typename D::Weights w[kPanelVectors];
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) w[v] = D::weights((Bytes)L::step(group, v, s));
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const auto four = D::broadcast(x + r * kRowBlockBytes + s * 4);
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) sum[r][v] = D::add(sum[r][v], w[v], four);
    }
  }
#pragma GCC unroll 2
  for (uint32_t v = 0; v < kPanelVectors; ++v) {
    const F32 factor = L::scale(block, group, v, which);
    const auto scale = D::scale(factor);
    F32 bias{};
    if constexpr (L::kBiased) bias = L::bias(block, group, v, factor);
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const int32_t start = L::kBiased ? kStartBits : row(r)->half_start[which];
      sums.add(r, v, D::value(sum[r][v], start, scale), simd::set1(row(r)->scale));
      if constexpr (L::kBiased) sums.add(r, v, bias, simd::set1(row(r)->sum));
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
  const std::byte* ahead = task.ahead;
  for (uint32_t left = task.groups; left > 0; left -= L::kGroups, block += L::kBlockBytes) {
    const std::byte* group = block + L::kHeaderBytes;
    for (uint32_t g = 0; g < L::kGroups; ++g) {
      for (uint32_t i = 0; i < task.ahead_lines; ++i) __builtin_prefetch(ahead + 64 * i, 0, 2);
      ahead += task.ahead_stride;
      add_part<L, R>(block, group, x, 0, sums);
      if constexpr (L::kScales == 2) add_part<L, R>(block, group, x, 1, sums);
      group += L::kGroupBytes;
      x += sizeof(RowGroup);
    }
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
  return pick_quant_tile<L>(rows, std::make_integer_sequence<uint32_t, kTileRows>());
}

}  // namespace
}  // namespace tenon::int8
