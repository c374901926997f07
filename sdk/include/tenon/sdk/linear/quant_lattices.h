// Formats whose values are points of a lattice: an index says which of a few hundred points four or
// eight values are, as magnitudes whose signs stand elsewhere, or as -1, 0 and 1. As codes of their
// own, a few levels each, they are 2, 3 or 4 bits a value, which is more than in the file: panels
// are read by one look-up for four values and not by one for each index. docs/formats/gguf.md shows
// the bits.
#pragma once

#include <tenon/sdk/linear/quant_shape.h>

#include <cstddef>
#include <cstdint>

namespace tenon::sdk {

enum class Lattice : uint32_t { iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq1 };

// Point `index` of a lattice, an index of a level in each byte, the first value in the lowest:
// eight of three levels, or four of eight in iq3_xxs and iq3_s. Indices beyond it count as the
// last.
uint64_t lattice_point(Lattice lattice, uint32_t index) noexcept;

namespace detail {

// Seven bits of signs, and the eighth that makes the number of minus signs even.
constexpr uint32_t even_signs(uint32_t seven) noexcept {
  return seven | static_cast<uint32_t>(__builtin_popcount(seven) % 2) << 7;
}
// Eight values of four levels each from two indices.
inline uint64_t two_points(Lattice lattice, uint32_t first, uint32_t second) noexcept {
  return lattice_point(lattice, first) | lattice_point(lattice, second) << 32;
}

}  // namespace detail

// Three magnitudes and a sign: codes of 3 bits. In eighths they are 8, 25 and 43.
inline constexpr float kIq2Levels[16] = {1, 3.125f, 5.375f, 0, -1, -3.125f, -5.375f};
// Eight magnitudes and a sign.
inline constexpr float kIq3XxsLevels[16] = {1,  3,  5,  7,  9,  11,  13,  15.5f,
                                            -1, -3, -5, -7, -9, -11, -13, -15.5f};
inline constexpr float kIq3SLevels[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                          -1, -3, -5, -7, -9, -11, -13, -15};

// A group: four indices of a byte, then a word of four times seven signs and a scale.
struct Iq2XxsBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::iq2_xxs, {.bits = 3, .small = SmallScales::whole, .table = kIq2Levels});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const std::byte* group = block + 2 + i / 32 * 8;
    const uint32_t which = i / 8 % 4;
    const uint32_t signs = detail::word_at(group, 4) >> (7 * which) & 127;
    return lattice_point(Lattice::iq2_xxs, detail::byte_at(group, which)) |
           detail::bits_of(detail::even_signs(signs)) << 2;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    return (detail::word_at(block, 2 + group * 8 + 4) >> 28) * 2 + 1;
  }
};

// Eight values: nine bits of an index and seven signs.
struct Iq2XsBlock {
  static constexpr QuantShape kShape = shape_of(
      QuantFormat::iq2_xs, {.bits = 3, .small = SmallScales::odd_halves, .table = kIq2Levels});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint32_t word = detail::half_word_at(block, 2 + i / 8 * 2);
    return lattice_point(Lattice::iq2_xs, word & 511) |
           detail::bits_of(detail::even_signs(word >> 9)) << 2;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    return detail::byte_at(block, 66 + group);
  }
};

// Eight values: a byte of an index with two more bits elsewhere, and a byte of signs.
struct Iq2SBlock {
  static constexpr QuantShape kShape = shape_of(
      QuantFormat::iq2_s, {.bits = 3, .small = SmallScales::odd_halves, .table = kIq2Levels});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint32_t top = detail::byte_at(block, 66 + i / 32) >> (i / 8 % 4 * 2) & 3;
    return lattice_point(Lattice::iq2_s, detail::byte_at(block, 2 + i / 8) | top << 8) |
           detail::bits_of(detail::byte_at(block, 34 + i / 8)) << 2;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    return detail::byte_at(block, 74 + group);
  }
};

// Four values an index of a byte; for each group a word of four times seven signs and a scale.
struct Iq3XxsBlock {
  static constexpr QuantShape kShape = shape_of(
      QuantFormat::iq3_xxs, {.bits = 4, .small = SmallScales::whole, .table = kIq3XxsLevels});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const std::byte* index = block + 2 + i / 4;
    const uint32_t signs = detail::word_at(block, 66 + i / 32 * 4) >> (7 * (i / 8 % 4)) & 127;
    return detail::two_points(Lattice::iq3_xxs, detail::byte_at(index, 0),
                              detail::byte_at(index, 1)) |
           detail::bits_of(detail::even_signs(signs)) << 3;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    return (detail::word_at(block, 66 + group * 4) >> 28) * 2 + 1;
  }
};

// Four values: a byte of an index with a ninth bit elsewhere; a byte of signs for eight.
struct Iq3SBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::iq3_s, {.bits = 4, .small = SmallScales::whole, .table = kIq3SLevels});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const std::byte* index = block + 2 + i / 4;
    const uint32_t top = detail::byte_at(block, 66 + i / 32) >> (i / 4 % 8);
    return detail::two_points(Lattice::iq3_s, detail::byte_at(index, 0) | (top & 1) << 8,
                              detail::byte_at(index, 1) | (top >> 1 & 1) << 8) |
           detail::bits_of(detail::byte_at(block, 74 + i / 8)) << 3;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    return (detail::byte_at(block, 106 + group / 2) >> (group % 2 * 4) & 15) * 2 + 1;
  }
};

// Eight values: a byte of an index with three more bits in the group's word, which has a scale and
// the sign of an eighth that is added to all of them.
struct Iq1SBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::iq1_s, {.bits = 2, .zero = 1, .small = SmallScales::shifted});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint32_t top = word(block, i / 32) >> (i / 8 % 4 * 3) & 7;
    return lattice_point(Lattice::iq1, detail::byte_at(block, 2 + i / 8) | top << 8);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    const uint32_t bits = word(block, group);
    const uint32_t scale = (bits >> 12 & 7) * 2 + 1;
    return bits >> 15 == 0 ? scale : 0u - scale;
  }

 private:
  static uint32_t word(const std::byte* block, uint32_t group) noexcept {
    return detail::half_word_at(block, 34 + group * 2);
  }
};

// Eight values: a byte of an index with a nibble elsewhere, three more bits and the sign of an
// eighth. Sixteen scales of three bits stand in four words, whose top bits are the block's scale.
// With its eighth a value is 8 · code - 9 + 2 · bit eighths.
struct Iq1MBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::iq1_m,
               {.bits = 2, .zero = 9, .small = SmallScales::shifted_halves, .unit = 0.125f});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint32_t top = detail::byte_at(block, 32 + i / 16) >> (i / 8 % 2 * 4) & 7;
    return lattice_point(Lattice::iq1, detail::byte_at(block, i / 8) | top << 8);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    const uint32_t half = 2 * group + which;
    const uint32_t scale = detail::half_word_at(block, 48 + half / 4 * 2) >> (half % 4 * 3) & 7;
    const uint32_t minus = detail::byte_at(block, 32 + half);
    return (2 * scale + 1) | (~minus >> 3 & 1) << 4 | (~minus >> 7 & 1) << 5;
  }
  static uint16_t scale_bits(const std::byte* block) noexcept {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      bits |= detail::half_word_at(block, 48 + 2 * i) >> 12 << (4 * i);
    }
    return static_cast<uint16_t>(bits);
  }
};

}  // namespace tenon::sdk
