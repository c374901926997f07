// How weights of a quantised format are read from their panels (sdk/linear/quant_panels.h, nibbles
// in halves), as vectors of one instruction set. One step is four values of k of kLanes columns,
// one in each byte of a 32-bit word; eight steps make a group.
//
//   value = scale · stored + bias      bias: the minimum, or -zero · scale, exact before the sum
//
// Of formats with a table, `stored` is the index. `small` are a group's small scales (small_of).
#pragma once

#include <tenon/sdk/linear/quant_panels.h>
#include <tenon/sdk/simd.h>

#include <cstddef>
#include <cstdint>

namespace tenon::sdk {
namespace {

typedef uint32_t StepBytes __attribute__((vector_size(sizeof(simd::F32))));
typedef int32_t StepWords __attribute__((vector_size(sizeof(simd::F32))));

// F: the struct of a format. kVectors: vectors side by side in a panel.
template <class F, uint32_t kVectors>
struct QuantSteps {
  static constexpr QuantShape kShape = F::kShape;
  static constexpr uint32_t kColumns = kVectors * simd::kLanes;
  static constexpr QuantPanels kPanels{.format = kShape.format, .columns = kColumns};
  static constexpr uint32_t kGroups = kShape.groups();
  // Scales of a group: one, or one for each half.
  static constexpr uint32_t kScales = kShape.scales();
  static constexpr uint64_t kHeaderBytes = kPanels.header_bytes();
  static constexpr uint64_t kSmallBytes = kPanels.small_bytes();
  static constexpr uint64_t kGroupBytes = kPanels.group_bytes();
  static constexpr uint64_t kBlockBytes = kPanels.block_bytes();

  static constexpr bool kSmallFirst = kPanels.small_first();
  static constexpr uint64_t kSmallAt = kPanels.small_at(0);

  // The small scales of group `index` of a block, which begins at `group`.
  [[gnu::always_inline]] static const std::byte* small_of(const std::byte* block,
                                                          const std::byte* group, uint32_t index) {
    return kSmallFirst ? block + kSmallAt + uint64_t{index} * kColumns : group;
  }
  // What all groups' scales have in common. `v`: which vector; `times`: a factor that makes no more
  // bits.
  [[gnu::always_inline]] static simd::F32 block_scale(const std::byte* block, uint32_t v,
                                                      float times = 1) {
    return unit_scale(block, v, times * kShape.unit);
  }
  // `which`: which scale of a group.
  [[gnu::always_inline]] static simd::F32 scale(const std::byte* block, const std::byte* small,
                                                uint32_t v, uint32_t which, float times = 1) {
    const simd::F32 scale = block_scale(block, v, times);  // once a block
    if constexpr (!kShape.nested()) return scale;
    return simd::mul(scale, small_scale(small, v, which));
  }
  // `scale`: as above.
  [[gnu::always_inline]] static simd::F32 bias(const std::byte* block, const std::byte* small,
                                               uint32_t v, uint32_t which, simd::F32 scale) {
    if constexpr (kShape.has_zero) {
      return simd::mul(scale, simd::sub(simd::zero(), second(block, v)));
    }
    if constexpr (kShape.has_minimum) {
      const simd::F32 minimum = second(block, v);
      if constexpr (!kShape.nested()) return minimum;
      return simd::mul(simd::sub(simd::zero(), minimum), small_minimum(small, v, which));
    }
    if constexpr (kShape.small == SmallScales::shifted) {
      const simd::F32 eighth = simd::mul(unit_scale(block, v, 0.125f), signed_small(small, v, 0));
      return simd::sub(eighth, scale);
    }
    return simd::mul(scale, simd::set1(-static_cast<float>(kShape.zero)));
  }
  // Unsigned bytes of step `s`; signed ones where values have 8 bits. Of indices that are looked up
  // by bytes, bits 4 to 6 may be anything: no such look-up reads them.
  template <bool looked_up = false>
  [[gnu::always_inline]] static StepBytes step(const std::byte* group, const std::byte* small,
                                               uint32_t v, uint32_t s) {
    if constexpr (kShape.bits == 8) return word(group, v, s);
    if constexpr (kShape.bits == 6) return six_bits(group, v, s);
    if constexpr (kShape.bits == 3) return three_bits<looked_up>(group, v, s);
    if constexpr (kShape.small == SmallScales::shifted_halves) {
      return moved(word(group, v, s / 4), s % 4 * 2, 3, 0x18181818u) | twos(small, v, s);
    }
    if constexpr (kShape.bits == 2) {
      return moved(word(group, v, s / 4), s % 4 * 2, 0, 0x03030303u);
    }
    StepBytes bytes = word(group, v, s / 2);
    bytes = (s % 2 == 0 ? bytes : bytes >> 4) & 0x0f0f0f0fu;
    if constexpr (kShape.bits == 4) return bytes;
    const StepBytes top = word(group, v, 4);
    return bytes | ((s < 4 ? top << static_cast<int>(4 - s) : top >> static_cast<int>(s - 4)) &
                    0x10101010u);
  }

  // What is multiplied with the block's scale, of nested formats.
  [[gnu::always_inline]] static simd::F32 small_scale(const std::byte* small, uint32_t v,
                                                      uint32_t which) {
    if constexpr (kShape.small == SmallScales::half_minima ||
                  kShape.small == SmallScales::shifted_halves) {
      return nibble<false>(small_words(small, v, which));
    }
    if constexpr (kShape.small == SmallScales::odd_halves) {
      const StepWords words = small_words(small, v, 0);
      return nibble<true>(which == 0 ? words : words >> 4);
    }
    if constexpr (kShape.small == SmallScales::float8_halves) {
      // As float8_value.
      const StepWords words = small_words(small, v, which);
      const StepWords bits = (words & 0x7f) << 20 | (words & 0x80) << 24;
      return simd::mul((simd::F32)bits, simd::set1(0x1p120f));
    }
    if constexpr (kShape.small == SmallScales::shifted) {
      const simd::F32 times = signed_small(small, v, 0);
      return simd::max(times, simd::sub(simd::zero(), times));
    }
    return signed_small(small, v, kShape.small == SmallScales::halves ? which : 0);
  }
  // The bytes of small scales, as words.
  [[gnu::always_inline]] static StepWords small_words(const std::byte* small, uint32_t v,
                                                      uint32_t which) {
    return (StepWords)simd::load_u8_words(small + which * kColumns + v * simd::kLanes);
  }
  // The f16 after the scale.
  [[gnu::always_inline]] static simd::F32 second(const std::byte* block, uint32_t v) {
    return simd::load_f16(block + kPanels.scales_bytes() + v * simd::kLanes * 2);
  }

 private:
  [[gnu::always_inline]] static simd::F32 stored_scale(const std::byte* block, uint32_t v) {
    constexpr uint32_t kBytes = simd::kLanes * scale_bytes(kShape.scale_type);
    if constexpr (kShape.scale_type == ScaleType::f32) return simd::load(block + v * kBytes);
    if constexpr (kShape.scale_type == ScaleType::bf16) return simd::load_bf16(block + v * kBytes);
    return simd::load_f16(block + v * kBytes);
  }
  [[gnu::always_inline]] static simd::F32 unit_scale(const std::byte* block, uint32_t v,
                                                     float times) {
    const simd::F32 scale = stored_scale(block, v);
    return times == 1 ? scale : simd::mul(scale, simd::set1(times));
  }
  [[gnu::always_inline]] static simd::F32 signed_small(const std::byte* small, uint32_t v,
                                                       uint32_t which) {
    return simd::load_i8(small + which * kColumns + v * simd::kLanes);
  }
  // The low four bits of every word as a number n, or 2n + 1.
  template <bool odd>
  [[gnu::always_inline]] static simd::F32 nibble(StepWords words) {
#if defined(__AVX512F__)
    // The permutation reads no more than four bits.
    const __m512 levels =
        odd ? _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
            : _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps((__m512i)words, levels);
#else
    if constexpr (odd) return __builtin_convertvector((words << 1 & 30) | 1, simd::F32);
    return __builtin_convertvector(words & 15, simd::F32);
#endif
  }
  [[gnu::always_inline]] static simd::F32 small_minimum(const std::byte* small, uint32_t v,
                                                        uint32_t which) {
    if constexpr (kShape.small == SmallScales::half_minima) {
      return nibble<false>(small_words(small, v, which) >> 4);
    }
    return signed_small(small, v, 1);
  }
  // 2 in each byte where the bit of the step's eight values is set.
  [[gnu::always_inline]] static StepBytes twos(const std::byte* small, uint32_t v, uint32_t s) {
    const StepWords words = small_words(small, v, s / 4);
    const StepWords sign = words << static_cast<int>(27 - s / 2 % 2) >> 31;
    return (StepBytes)sign & 0x02020202u;
  }
  // What stands from bit `from` on of every byte, from bit `to` on, cut off by `mask`.
  [[gnu::always_inline]] static StepBytes moved(StepBytes word, uint32_t from, uint32_t to,
                                                uint32_t mask) {
    const StepBytes at =
        from >= to ? word >> static_cast<int>(from - to) : word << static_cast<int>(to - from);
    return at & mask;
  }
  template <bool looked_up>
  [[gnu::always_inline]] static StepBytes three_bits(const std::byte* group, uint32_t v,
                                                     uint32_t s) {
    const uint32_t at = s % 2 * 4;
    if (s < 6) {
      const StepBytes codes = word(group, v, s / 2);
      if constexpr (looked_up) return (codes & 0x77777777u) >> static_cast<int>(at);
      return moved(codes, at, 0, 0x07070707u);
    }
    // Both steps of the spare bits at once.
    const StepBytes last = moved(word(group, v, 0), 3, 0, 0x11111111u) |
                           moved(word(group, v, 1), 2, 0, 0x22222222u) |
                           moved(word(group, v, 2), 1, 0, 0x44444444u);
    return looked_up ? last >> static_cast<int>(at) : moved(last, at, 0, 0x07070707u);
  }
  [[gnu::always_inline]] static StepBytes word(const std::byte* group, uint32_t v, uint32_t index) {
    StepBytes value;
    const std::byte* from = group + kSmallBytes + (index * kVectors + v) * sizeof(value);
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  [[gnu::always_inline]] static StepBytes six_bits(const std::byte* group, uint32_t v, uint32_t s) {
    const uint32_t first = s / 4 * 3;
    if (s % 4 < 3) return word(group, v, first + s % 4) & 0x3f3f3f3fu;
    return (word(group, v, first) >> 2 & 0x30303030u) |
           (word(group, v, first + 1) >> 4 & 0x0c0c0c0cu) |
           (word(group, v, first + 2) >> 6 & 0x03030303u);
  }
};

}  // namespace
}  // namespace tenon::sdk
