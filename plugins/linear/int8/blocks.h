// How groups of blocks are read, for the tile of quant_tile.h: as the panel stores them, or widened
// once for many rows. The bytes of a step are unsigned where dot products take them so; what they
// are too large by is taken back in one of two ways:
//
//   where all columns have one zero, sums start at what it takes away (start_of in quant_tile.h)
//   else a bias times the sum of x is added (`bias`), as a minimum is
//
// q5_0 and the tables of single scales have one zero and a bias: their bits are recorded.
#pragma once

#include <tenon/sdk/linear/quant_steps.h>

#include <type_traits>

#include "plugins/linear/int8/tile.h"

namespace tenon::int8 {
namespace {

template <class F>
inline constexpr bool kTable = F::kShape.table != nullptr;

// How many of a table's bytes make the level 1. Those of the others are whole; these two have no
// such number, so theirs are the ones that change weights least: of normal weights 0.47 % (NF4) and
// 0.33 % (FP4, whose smallest level alone changes), of heavy-tailed ones 0.6 and 0.7 %.
template <class F>
constexpr float level_units() {
  if (F::kShape.table == sdk::kNf4Levels) return 124.1f;
  if (F::kShape.table == sdk::kFp4Levels) return 120;
  float units = 1;
  for (uint32_t i = 0; i < 16; ++i) {
    const auto whole = [&] { return F::kShape.table[i] * units; };
    while (static_cast<float>(static_cast<int32_t>(whole())) != whole()) units *= 2;
  }
  return units;
}
constexpr int32_t rounded(float value) {
  return static_cast<int32_t>(value + (value < 0 ? -0.5f : 0.5f));
}

// Whether there is a bias; else the zero, one for all columns, is taken back where sums start.
template <class F>
constexpr bool has_bias() {
  constexpr sdk::QuantShape kShape = F::kShape;
  if (kShape.has_second() || kShape.small == sdk::SmallScales::shifted) return true;
  if (kShape.scales() == 2 || kShape.small == sdk::SmallScales::whole) return false;
  return kShape.format != Format::tq2_0;
}
// Levels that need no more than seven bits are stored with 64 added, in every set.
inline constexpr int32_t kNarrowOffset = 64;
template <class F>
constexpr bool has_narrow_table() {
  if (!kTable<F> || has_bias<F>()) return false;
  for (uint32_t i = 0; i < 16; ++i) {
    const float level = F::kShape.table[i] * level_units<F>();
    if (level >= kNarrowOffset || level < -kNarrowOffset) return false;
  }
  return true;
}
// What the bytes of a step are too large by.
template <class F>
constexpr int32_t byte_offset() {
  if (has_narrow_table<F>()) return kNarrowOffset;
  if (kTable<F>) return static_cast<int32_t>(kStoredOffset[0]);
  if (!has_bias<F>()) return static_cast<int32_t>(F::kShape.zero);
  return F::kShape.bits == 8 ? static_cast<int32_t>(kStoredOffset[0]) - 128 : 0;
}

// Formats whose words are read in an order that the processor's own prefetching cannot follow.
template <class F>
inline constexpr bool kScattered = F::kShape.bits == 5 || F::kShape.format == Format::q3_k;

struct ByteLevels {
  int8_t bytes[16];
};
template <class F>
constexpr ByteLevels byte_levels() {
  ByteLevels levels{};
  for (uint32_t i = 0; i < 16; ++i) {
    const int32_t whole = rounded(F::kShape.table[i] * level_units<F>());
    levels.bytes[i] = static_cast<int8_t>(whole + byte_offset<F>());
  }
  return levels;
}

// The dot product for bytes of a format.
template <class F>
struct DotOfFormat {
  // Tables of eight bits, and u8, are signed but where the instruction takes unsigned ones.
  static constexpr bool kWide = (kTable<F> && !has_narrow_table<F>()) || F::kShape.bits == 8;
  static constexpr bool kNibbles =
      !kTable<F> && F::kShape.bits <= 4 && F::kShape.small != sdk::SmallScales::shifted_halves;
  using Narrow = std::conditional_t<kNibbles, DotQ4, DotUnsigned>;
  using Type = std::conditional_t<kWide, DotQ8, Narrow>;
};

// As the panel stores it. F: the struct of the format.
template <class F>
struct PackedBlocks : sdk::QuantSteps<F, kPanelVectors> {
  using Block = F;
  using Steps = sdk::QuantSteps<F, kPanelVectors>;
  static constexpr bool kPacked = true;
  static constexpr Format kFormat = F::kShape.format;
  static constexpr bool kBiased = has_bias<F>();

  [[gnu::always_inline]] static F32 scale(const std::byte* block, const std::byte* small,
                                          uint32_t v, uint32_t which) {
    if constexpr (kTable<F>) {
      return Steps::scale(block, small, v, which, 1.0f / level_units<F>());
    }
    return Steps::scale(block, small, v, which);
  }
  [[gnu::always_inline]] static F32 bias(const std::byte* block, const std::byte* small, uint32_t v,
                                         uint32_t which, F32 scale) {
    constexpr int32_t kOffset = byte_offset<F>();
    if constexpr (F::kShape.has_zero && kOffset != 0) {
      const F32 zero = simd::add(Steps::second(block, v), simd::set1(static_cast<float>(kOffset)));
      return simd::mul(scale, simd::sub(simd::zero(), zero));
    }
    if constexpr (kTable<F>) return simd::mul(scale, simd::set1(-static_cast<float>(kOffset)));
    return Steps::bias(block, small, v, which, scale);
  }
  [[gnu::always_inline]] static sdk::StepBytes step(const std::byte* group, const std::byte* small,
                                                    uint32_t v, uint32_t s) {
    const sdk::StepBytes bytes = Steps::template step<kTable<F>>(group, small, v, s);
    if constexpr (kTable<F>) {
      static constexpr ByteLevels kLevels = byte_levels<F>();
      return (sdk::StepBytes)lookup(kLevels.bytes, (Bytes)bytes);
    }
    return bytes;
  }
  // Groups with one header: of nested formats always as many.
  [[gnu::always_inline]] static uint32_t block_groups(uint32_t given) {
    return F::kShape.nested() ? Steps::kGroups : given;
  }
};

// Bytes, scales and biases as f32, made once a block of k when many rows read it.
template <class F>
struct WidenedBlocks {
  using Packed = PackedBlocks<F>;
  using Block = F;
  static constexpr bool kPacked = false;
  static constexpr Format kFormat = Packed::kFormat;
  static constexpr bool kBiased = Packed::kBiased;
  static constexpr uint32_t kGroups = 1;
  static constexpr uint32_t kScales = Packed::kScales;
  [[gnu::always_inline]] static uint32_t block_groups(uint32_t) { return 1; }
  // Two vectors of f32 a column's lane at least.
  static constexpr uint32_t kFactors = kBiased ? 2 * kScales : 2;
  static constexpr uint64_t kBytesAt = kFactors * uint64_t{kPanelColumns} * 4;
  static constexpr uint64_t kHeaderBytes = 0;
  static constexpr uint64_t kGroupBytes =
      kBytesAt + uint64_t{kPanelColumns} * sdk::kQuantGroupValues;
  static constexpr uint64_t kBlockBytes = kGroupBytes;

  [[gnu::always_inline]] static const std::byte* small_of(const std::byte*, const std::byte* group,
                                                          uint32_t) {
    return group;
  }
  [[gnu::always_inline]] static F32 scale(const std::byte*, const std::byte* group, uint32_t v,
                                          uint32_t which) {
    return simd::load(group + (which * kPanelVectors + v) * kVectorBytes);
  }
  [[gnu::always_inline]] static F32 bias(const std::byte*, const std::byte* group, uint32_t v,
                                         uint32_t which, F32) {
    return simd::load(group + ((kScales + which) * kPanelVectors + v) * kVectorBytes);
  }
  [[gnu::always_inline]] static sdk::StepBytes step(const std::byte* group, const std::byte*,
                                                    uint32_t v, uint32_t s) {
    return (sdk::StepBytes)simd::load(group + kBytesAt + (s * kPanelVectors + v) * kVectorBytes);
  }
};
inline constexpr uint64_t kWidestGroupBytes =
    uint64_t{kPanelColumns} * (sdk::kQuantGroupValues + 16);

template <class L>
concept IsBlocks = requires {
  typename L::Block;
};

// `groups` groups of a panel, whole blocks, widened.
template <class L>
requires IsBlocks<L>
const std::byte* widen(const std::byte* block, uint32_t groups, uint32_t block_groups,
                       std::byte* to) {
  using W = WidenedBlocks<typename L::Block>;
  static_assert(W::kGroupBytes <= kWidestGroupBytes);
  std::byte* out = to;
  const uint32_t each = L::block_groups(block_groups);
  for (const std::byte* group = block; groups > 0; groups -= each, block = group) {
    group = block + L::kHeaderBytes;
    for (uint32_t g = 0; g < each; ++g, group += L::kGroupBytes, out += W::kGroupBytes) {
      const std::byte* small = L::small_of(block, group, g);
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        const auto put = [&](uint32_t at, F32 factor) {
          store_bytes((Bytes)factor, out + (at * kPanelVectors + v) * kVectorBytes);
        };
#pragma GCC unroll 2
        for (uint32_t which = 0; which < L::kScales; ++which) {
          const F32 scale = L::scale(block, small, v, which);
          put(which, scale);
          if (L::kBiased) put(L::kScales + which, L::bias(block, small, v, which, scale));
        }
#pragma GCC unroll 8
        for (uint32_t s = 0; s < 8; ++s) {
          store_bytes((Bytes)L::step(group, small, v, s),
                      out + W::kBytesAt + (s * kPanelVectors + v) * kVectorBytes);
        }
      }
    }
  }
  return to;
}

}  // namespace
}  // namespace tenon::int8
