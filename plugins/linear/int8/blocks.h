// How groups of blocks are read, for the tile of quant_tile.h: as the panel stores them, or widened
// once for many rows. The bytes of a step are unsigned where dot products take them so; what they
// are too large by is taken back in one of two ways:
//
//   where all columns have one zero, sums start at what it takes away (start_of in quant_tile.h)
//   else a bias times the sum of x is added (`bias`), as a minimum is
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
  if (F::kShape.table == kNf4Levels) return 124.1f;
  if (F::kShape.table == kFp4Levels) return 120;
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

// Formats whose small scales and sums are whole numbers below 2^24 together: what a group's two
// halves add up to is exact, and only then takes the block's scale.
template <class F>
inline constexpr bool kJoined =
    F::kShape.format == Format::q2_k || F::kShape.format == Format::q3_k;
// Where a set may change codes, small scales of joined halves are multiplied into them; else the
// halves' sums are multiplied with them. Both are exact, so the bits are the same.
template <class F>
inline constexpr bool kTimesSmall = (kChangesCodes && kJoined<F>);

// Whether there is a bias; else the zero, one for all columns, is taken back where sums start.
template <class F>
constexpr bool has_bias() {
  return F::kShape.has_second() || F::kShape.small == sdk::SmallScales::shifted;
}
// The middle of codes of which a sum over all steps of a scale fits 16 bits, less that middle:
// 16 · 2 · 8 products of x, of which the largest is 127, are below 2^15.
template <class F>
inline constexpr int32_t kMiddle = 16 * static_cast<int32_t>(F::kShape.scales());
// Whether all levels of a table are from -`most` to `most` - 1.
template <class F>
constexpr bool has_levels_within(int32_t most) {
  if (!kTable<F> || has_bias<F>()) return false;
  for (uint32_t i = 0; i < 16; ++i) {
    const float level = F::kShape.table[i] * level_units<F>();
    if (level >= static_cast<float>(most) || level < static_cast<float>(-most)) return false;
  }
  return true;
}
// Levels that need no more than seven bits are stored with 64 added, in every set; small ones with
// the middle of as many steps as have one scale.
inline constexpr int32_t kNarrowOffset = 64;
template <class F>
constexpr bool has_narrow_table() {
  return has_levels_within<F>(kNarrowOffset);
}
template <class F>
inline constexpr bool kCentred = kTable<F> ? has_levels_within<F>(kMiddle<F>)
                                           : 1 << (F::kShape.bits - 1) == kMiddle<F>;
// What the bytes of a step are too large by.
template <class F>
constexpr int32_t byte_offset() {
  if (has_narrow_table<F>()) return kCentred<F> ? kMiddle<F> : kNarrowOffset;
  if (kTable<F>) return static_cast<int32_t>(kStoredOffset[0]);
  if (kTimesSmall<F> && !has_bias<F>()) return static_cast<int32_t>(kStoredOffset[0]);
  if (!has_bias<F>()) return static_cast<int32_t>(F::kShape.zero);
  return F::kShape.bits == 8 ? -static_cast<int32_t>(kStoredOffset[2]) : 0;
}
// What sums take back of it where they start; a bias takes back all.
template <class F>
constexpr int32_t start_offset() {
  return has_bias<F>() ? 0 : byte_offset<F>();
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
  using Unsigned = std::conditional_t<kCentred<F>, DotCentred<has_bias<F>()>, DotUnsigned>;
  using Narrow = std::conditional_t<kNibbles && !kTimesSmall<F>, DotQ4, Unsigned>;
  using Wide = std::conditional_t<F::kShape.bits == 8, DotU8, DotLevels>;
  using Type = std::conditional_t<kWide, Wide, Narrow>;
  // Of bytes that were widened.
  static constexpr bool kSplit = kSplitsSigns && kWide;
  using Widened = std::conditional_t<kSplit, DotSplit, Type>;
};

// As the panel stores it. F: the struct of the format.
template <class F>
struct PackedBlocks : sdk::QuantSteps<F, kPanelVectors> {
  using Block = F;
  using Product = typename DotOfFormat<F>::Type;
  using Steps = sdk::QuantSteps<F, kPanelVectors>;
  static constexpr bool kPacked = true;
  static constexpr Format kFormat = F::kShape.format;
  // The parts of a group that are summed one after the other, and the scales of `scale`.
  static constexpr bool kJoinedSums = kJoined<F> && !kTimesSmall<F>;
  static constexpr uint32_t kScales = kTimesSmall<F> ? 1 : Steps::kScales;
  static constexpr uint32_t kBiases = !has_bias<F>() ? 0 : (kJoined<F> ? Steps::kScales : 1);

  // Of joined sums the small one.
  [[gnu::always_inline]] static F32 scale(const std::byte* block, const std::byte* small,
                                          uint32_t v, uint32_t which) {
    if constexpr (kJoinedSums) return Steps::small_scale(small, v, which);
    if constexpr (kTimesSmall<F>) return Steps::block_scale(block, v, kTurned ? -1.0f : 1.0f);
    if constexpr (kTable<F>) {
      return Steps::scale(block, small, v, which, 1.0f / level_units<F>());
    }
    return Steps::scale(block, small, v, which);
  }
  // What joined sums are multiplied with.
  [[gnu::always_inline]] static F32 joined_scale(const std::byte* block, const std::byte*,
                                                 uint32_t v) {
    return Steps::block_scale(block, v);
  }
  [[gnu::always_inline]] static F32 bias(const std::byte* block, const std::byte* small, uint32_t v,
                                         uint32_t which, F32 scale) {
    constexpr int32_t kOffset = byte_offset<F>();
    if constexpr (F::kShape.has_zero && kOffset != 0) {
      const F32 zero = simd::add(Steps::second(block, v), simd::set1(static_cast<float>(kOffset)));
      return simd::mul(scale, simd::sub(simd::zero(), zero));
    }
    return Steps::bias(block, small, v, which, scale);
  }
  [[gnu::always_inline]] static sdk::StepBytes step(const std::byte* group, const std::byte* small,
                                                    uint32_t v, uint32_t s) {
    const sdk::StepBytes bytes = Steps::template step<kTable<F>>(group, small, v, s);
    if constexpr (kTable<F>) {
      static constexpr ByteLevels kLevels = byte_levels<F>();
      return (sdk::StepBytes)lookup(kLevels.bytes, (Bytes)bytes);
    }
    if constexpr (kTimesSmall<F>) {
      const Halves times = small_halves(small, v, s / 4);
      if constexpr (!kTurned) return (sdk::StepBytes)((Halves)bytes * times);
      // Both bytes of a half at once: what they lend each other while they are negative is paid
      // back by the offset.
      return (sdk::StepBytes)(times * 0x0404 + 0x8080 - (Halves)bytes * times);
    }
    return bytes;
  }
  // Groups with one header: of nested formats always as many.
  [[gnu::always_inline]] static uint32_t block_groups(uint32_t given) {
    return F::kShape.nested() ? Steps::kGroups : given;
  }

 private:
  typedef uint16_t Halves __attribute__((vector_size(sizeof(F32))));
  // Codes of q3_k are taken from 4: the other way round, the largest product would be 128.
  static constexpr bool kTurned = !has_bias<F>();

  // The small scales of half `which` of a group: a column's in both halves of its word.
  [[gnu::always_inline]] static Halves small_halves(const std::byte* small, uint32_t v,
                                                    uint32_t which) {
    const sdk::StepWords words = Steps::small_words(small, v, which);
    const auto halves = (Halves)(words | words << 16);
    if constexpr (!kTurned) return halves & 15;
    return (halves ^ 0x80) - 0x80;
  }
};

// Bytes, scales and biases as f32, made once a block of k when many rows read it.
template <class F>
struct WidenedBlocks {
  using Packed = PackedBlocks<F>;
  using Block = F;
  using Product = typename DotOfFormat<F>::Widened;
  static constexpr bool kSplit = DotOfFormat<F>::kSplit;
  static constexpr bool kPacked = false;
  static constexpr Format kFormat = Packed::kFormat;
  static constexpr uint32_t kGroups = 1;
  static constexpr bool kJoinedSums = Packed::kJoinedSums;
  static constexpr uint32_t kScales = Packed::kScales;
  static constexpr uint32_t kBiases = Packed::kBiases;
  [[gnu::always_inline]] static uint32_t block_groups(uint32_t) { return 1; }
  // In front of the bytes, an f32 for each column: scales, that of joined sums, biases; and, of
  // bytes that are split, what sums start with. Two at least.
  static constexpr uint32_t kBiasAt = kScales + (kJoinedSums ? 1 : 0);
  static constexpr uint64_t kStartsAt = (kBiasAt + kBiases) * uint64_t{kPanelColumns} * 4;
  static constexpr uint32_t kUsedFactors = kBiasAt + kBiases + (kSplit ? 1 : 0);
  static constexpr uint32_t kFactors = kUsedFactors > 2 ? kUsedFactors : 2;
  static constexpr uint64_t kBytesAt = kFactors * uint64_t{kPanelColumns} * 4;
  static constexpr uint64_t kHeaderBytes = 0;
  static constexpr uint64_t kGroupBytes = kBytesAt + kSignsAfter * (kSplit ? 2 : 1);
  static constexpr uint64_t kBlockBytes = kGroupBytes;

  [[gnu::always_inline]] static const std::byte* small_of(const std::byte*, const std::byte* group,
                                                          uint32_t) {
    return group;
  }
  [[gnu::always_inline]] static F32 scale(const std::byte*, const std::byte* group, uint32_t v,
                                          uint32_t which) {
    return factor(group, which, v);
  }
  [[gnu::always_inline]] static F32 joined_scale(const std::byte*, const std::byte* group,
                                                 uint32_t v) {
    return factor(group, kScales, v);
  }
  [[gnu::always_inline]] static F32 bias(const std::byte*, const std::byte* group, uint32_t v,
                                         uint32_t which, F32) {
    return factor(group, kBiasAt + which, v);
  }
  [[gnu::always_inline]] static sdk::StepBytes step(const std::byte* group, const std::byte*,
                                                    uint32_t v, uint32_t s) {
    return (sdk::StepBytes)simd::load(group + kBytesAt + (s * kPanelVectors + v) * kVectorBytes);
  }
  // Of split bytes, whose magnitudes are `step`.
  [[gnu::always_inline]] static Bytes signs(const std::byte* group, uint32_t v, uint32_t s) {
    return load_bytes(group + kBytesAt + kSignsAfter + (s * kPanelVectors + v) * kVectorBytes);
  }

 private:
  [[gnu::always_inline]] static F32 factor(const std::byte* group, uint32_t index, uint32_t v) {
    return simd::load(group + (index * kPanelVectors + v) * kVectorBytes);
  }
};
inline constexpr uint64_t kWidestGroupBytes =
    uint64_t{kPanelColumns} * 5 * sizeof(float) + kSignsAfter * (kSplitsSigns ? 2 : 1);

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
          put(which, L::scale(block, small, v, which));
        }
        if constexpr (L::kJoinedSums) put(L::kScales, L::joined_scale(block, small, v));
#pragma GCC unroll 2
        for (uint32_t which = 0; which < L::kBiases; ++which) {
          const F32 bias = L::bias(block, small, v, which, L::scale(block, small, v, 0));
          put(W::kBiasAt + which, bias);
        }
      }
      const auto bytes = [&](uint32_t v, uint32_t s) { return (Bytes)L::step(group, small, v, s); };
      if constexpr (W::kSplit) {
        split_group<DotSplit>(out + W::kStartsAt, out + W::kBytesAt, bytes);
      } else {
        store_group(out + W::kBytesAt, bytes);
      }
    }
  }
  return to;
}

}  // namespace
}  // namespace tenon::int8
