// Quantised formats as weights of a tile. q8_0 and q4_0 are widened in registers; the others only
// for a single row (row_tile.h). For several rows a group at a time in memory, 32 values of a panel
// as f32, which the tile of f32 then reads: their values take more instructions than a tile has
// registers for.
#pragma once

#include <tenon/sdk/linear/quant_steps.h>

#include "plugins/linear/dense/weights.h"

namespace tenon::dense {
namespace {

inline constexpr uint32_t kGroupFloats = sdk::kQuantGroupValues * kPanelColumns;

// The bits of e4m3 in the place of an f32's: its exponent is 120 short. Scales make up for it, or,
// where one is 2 or more, levels do themselves (`whole`): a scale must not become infinite.
inline constexpr float kFloat8Unit = 0x1p120f;

// What the codes of a step stand for, before scale and bias.
template <class F>
[[gnu::always_inline]] inline F32 levels_of(Words codes) {
  if constexpr (F::kShape.table != nullptr) {
#if defined(__AVX512F__)
    return _mm512_permutexvar_ps((__m512i)codes, simd::load(F::kShape.table));
#elif defined(__AVX2__)
    const F32 low = _mm256_permutevar8x32_ps(simd::load(F::kShape.table), (__m256i)codes);
    const F32 high = _mm256_permutevar8x32_ps(simd::load(F::kShape.table + 8), (__m256i)codes);
    return _mm256_blendv_ps(low, high, (F32)(codes << 28));
#elif defined(TENON_NEON)
    // Four bytes of a table of 64.
    const uint8x16x4_t table = vld1q_u8_x4(reinterpret_cast<const uint8_t*>(F::kShape.table));
    return (F32)vqtbl4q_u8(table, (uint8x16_t)(codes * 0x04040404 + 0x03020100));
#else
    F32 levels{};
    for (uint32_t i = 0; i < simd::kLanes; ++i) levels[i] = F::kShape.table[codes[i]];
    return levels;
#endif
  } else {
    return __builtin_convertvector(codes, F32);
  }
}

// Byte `i` of each word of a step, as levels_of.
template <class F, uint32_t i, bool whole>
[[gnu::always_inline]] inline F32 level_of_byte(sdk::StepBytes bytes) {
  if constexpr (F::kShape.float8) {
    const Words on_top = (Words)(bytes << static_cast<int>(24 - 8 * i));
    const auto level = (F32)((on_top >> 4) & static_cast<int32_t>(0x87f00000));
    return whole ? simd::mul(level, simd::set1(kFloat8Unit)) : level;
  }
  const sdk::StepBytes shifted = bytes >> static_cast<int>(8 * i);
#if defined(__AVX512F__)
  // The permutation reads four bits of an index, so nothing needs to be cut off.
  constexpr bool kFourBits =
      F::kShape.bits <= 4 && F::kShape.small != sdk::SmallScales::shifted_halves;
  if constexpr (kFourBits) {
    if constexpr (F::kShape.table != nullptr) return levels_of<F>((Words)shifted);
    const F32 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps((__m512i)shifted, table);
  }
#endif
  return levels_of<F>((Words)(i == 3 ? shifted : shifted & 255u));
}

// A step is a block. F: the struct of the format.
template <class F>
struct QuantWeights : F32Weights {
  using Block = F;
  using Steps = sdk::QuantSteps<F, kPanelVectors>;
  static constexpr uint32_t kStep = F::kShape.values;
  static constexpr uint32_t kVectorBytes = Steps::kBlockBytes / kPanelVectors;

  // Groups behind one header.
  static constexpr uint32_t each(uint32_t block_groups) {
    return F::kShape.nested() ? Steps::kGroups : block_groups;
  }
  // Of the first `groups` groups of a panel, whole blocks.
  static constexpr uint64_t bytes_of_groups(uint32_t groups, uint32_t block_groups) {
    return groups * Steps::kGroupBytes + groups / each(block_groups) * Steps::kHeaderBytes;
  }

  // Where a group stands; its next ones are asked for.
  struct Group {
    const std::byte *block, *small, *values;
    Group(const std::byte* first, uint32_t group, uint32_t block_groups)
        : block(first + bytes_of_groups(group - group % each(block_groups), block_groups)),
          small(Steps::small_of(block, at(block, group % each(block_groups)),
                                group % each(block_groups))),
          values(at(block, group % each(block_groups))) {
      for (uint32_t line = 0; line < Steps::kGroupBytes; line += 64) {
        __builtin_prefetch(values + line + kWidenAhead);
      }
    }
    [[gnu::always_inline]] Words scale_bits() const {
      Words bits{};
#pragma GCC unroll 2
      for (uint32_t v = 0; v < kPanelVectors; ++v) {
        bits |= (Words)Steps::scale(block, small, v, 0);
      }
      return bits;
    }
    template <bool whole>
    [[gnu::always_inline]] F32 scale(uint32_t v, uint32_t which) const {
      return Steps::scale(block, small, v, which, F::kShape.float8 && !whole ? kFloat8Unit : 1);
    }
    [[gnu::always_inline]] F32 bias(uint32_t v, uint32_t which, F32 scale) const {
      return Steps::bias(block, small, v, which, scale);
    }
    [[gnu::always_inline]] sdk::StepBytes step(uint32_t v, uint32_t s) const {
      return Steps::step(values, small, v, s);
    }

   private:
    static const std::byte* at(const std::byte* block, uint32_t index) {
      return block + Steps::kHeaderBytes + index * Steps::kGroupBytes;
    }
  };

  // Of FP8. bits: of the scales of one group or of several, joined (Group::scale_bits).
  [[gnu::always_inline]] static bool needs_whole_levels(Words bits) {
    // This bit is set in numbers from 2 on, and alone it is the number 2.
    return simd::any(simd::less(simd::zero(), (F32)(bits & 0x40000000)));
  }

  // Group `group`, counted from the first of `block`, as f32 [32][kPanelColumns]. Exact: the values
  // that the format defines.
  static void widen(const std::byte* block, uint32_t group, uint32_t block_groups, float* to) {
    const Group from(block, group, block_groups);
    if constexpr (F::kShape.float8) {
      if (needs_whole_levels(from.scale_bits())) return widen<true>(from, to);
    }
    widen<false>(from, to);
  }

 private:
  template <bool whole>
  [[gnu::always_inline]] static void widen(const Group& from, float* to) {
#pragma GCC unroll 2
    for (uint32_t v = 0; v < kPanelVectors; ++v) {
      F32 scale{}, bias{};
#pragma GCC unroll 8
      for (uint32_t s = 0; s < sdk::kQuantGroupValues / 4; ++s) {
        if (s % (8 / Steps::kScales) == 0) {
          const uint32_t which = s * Steps::kScales / 8;
          scale = from.template scale<whole>(v, which);
          bias = from.bias(v, which, scale);
        }
        const sdk::StepBytes bytes = from.step(v, s);
        const auto put = [&](uint32_t i, F32 level) {
          simd::store(to + (4 * s + i) * kPanelColumns + v * simd::kLanes,
                      simd::fma(level, scale, bias));
        };
        put(0, level_of_byte<F, 0, whole>(bytes));
        put(1, level_of_byte<F, 1, whole>(bytes));
        put(2, level_of_byte<F, 2, whole>(bytes));
        put(3, level_of_byte<F, 3, whole>(bytes));
      }
    }
  }

  static constexpr uint32_t kWidenAhead = 2048;  // bytes of the panel asked for before their use
};
template <>
struct QuantWeights<sdk::Q8Block> : Q8Weights {};
template <>
struct QuantWeights<sdk::Q4Block> : Q4Weights {};

template <class W>
concept Expands = requires {
  typename W::Steps;
};

}  // namespace
}  // namespace tenon::dense
