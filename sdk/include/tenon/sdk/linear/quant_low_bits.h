// The K-quants of 2 and 3 bits, iq4_xs, and ternary weights, as structs that
// sdk/linear/quant_formats.h lists; docs/formats/gguf.md shows the bits.
#pragma once

#include <tenon/formats/levels.h>
#include <tenon/sdk/linear/quant_shape.h>

#include <cstddef>
#include <cstdint>

namespace tenon::sdk {

struct Q2SuperBlock {
  static constexpr QuantShape kShape = shape_of(
      QuantFormat::q2_k, {.bits = 2, .has_minimum = true, .small = SmallScales::half_minima});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::pairs_at(block + 16, i);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    return detail::byte_at(block, 2 * group + which);
  }
};

// Six bits each for sixteen scales in 12 bytes: of scale i the low four are a nibble of byte i % 8,
// the others bits 2 · (i / 4) … of byte 8 + i % 4.
struct Q3SuperBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::q3_k, {.bits = 3, .zero = 4, .small = SmallScales::halves});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    const uint64_t top = detail::bytes_at(block, i % 32) >> (i / 32) & detail::kEachByte;
    return detail::pairs_at(block + 32, i) | top << 2;
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t which) noexcept {
    const std::byte* packed = block + 96;
    const uint32_t i = 2 * group + which;
    const uint32_t low = detail::byte_at(packed, i % 8) >> (i / 8 * 4) & 15;
    return (low | (detail::byte_at(packed, 8 + i % 4) >> (i / 4 * 2) & 3) << 4) - 32;
  }
};

// Six bits each for eight scales: four in nibbles, two in a word before them.
struct Iq4SuperBlock {
  static constexpr QuantShape kShape =
      shape_of(QuantFormat::iq4_xs, {.bits = 4, .small = SmallScales::whole, .table = kIq4Levels});
  template <class V = uint64_t>
  static V eight(const std::byte* block, uint32_t i) noexcept {
    return detail::nibbles_at<V>(block + 8, 16, i);
  }
  static uint32_t small(const std::byte* block, uint32_t group, uint32_t) noexcept {
    const uint32_t low = detail::byte_at(block, 4 + group / 2) >> (group % 2 * 4) & 15;
    return (low | (detail::half_word_at(block, 2) >> (2 * group) & 3) << 4) - 32;
  }
};

// Two bits for each value of -1, 0 and 1.
struct TernaryBlock {
  static constexpr QuantShape kShape = shape_of(QuantFormat::tq2_0, {.bits = 2, .zero = 1});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    return detail::pairs_at(block, i);
  }
};

// Five in a byte: it is a fraction of 256 whose ternary digits they are. 32 bytes hold values 0 to
// 159, 16 the next 80, four bytes four each: digit n of byte i % 32, i % 16, i % 4 of these.
// Panels hold two bits for each, as of tq2_0.
struct Ternary5Block {
  static constexpr QuantShape kShape = shape_of(QuantFormat::tq1_0, {.bits = 2, .zero = 1});
  static uint64_t eight(const std::byte* block, uint32_t i) noexcept {
    uint64_t values = 0;
    for (uint32_t k = 0; k < 8; ++k) values |= uint64_t{digit(block, i + k)} << (8 * k);
    return values;
  }

 private:
  static uint32_t digit(const std::byte* block, uint32_t i) noexcept {
    constexpr uint32_t kPowers[] = {1, 3, 9, 27, 81};
    const uint32_t first = i < 160 ? 0 : (i < 240 ? 160 : 240);
    const uint32_t bytes = i < 160 ? 32 : (i < 240 ? 16 : 4);
    const uint32_t at = first / 5 + (i - first) % bytes;
    const uint32_t fraction = detail::byte_at(block, at) * kPowers[(i - first) / bytes] & 255;
    return fraction * 3 >> 8;
  }
};

}  // namespace tenon::sdk
