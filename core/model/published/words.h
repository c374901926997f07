// Codes of 2 to 8 bits in words of 32, as GPTQ's and AWQ's tensors have them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/model/published/reader.h"

namespace tenon::published {

// stream   one code after the other, lowest bits first, across the ends of words
// planes   for each 32 codes as many words as a code has bits: the low 4 bits of all (or 2 of 2 and
//          3 bits, 8 of 8), then planes of 2 bits and of 1 bit with what is above
enum class WordLayout : uint8_t { stream, planes };

// The widths of the planes, low ones first.
inline std::span<const uint32_t> plane_widths(uint32_t bits) {
  static constexpr uint32_t kTwo[] = {2}, kThree[] = {2, 1}, kFour[] = {4}, kFive[] = {4, 1},
                            kSix[] = {4, 2}, kSeven[] = {4, 2, 1}, kEight[] = {8};
  static constexpr std::span<const uint32_t> kWidths[] = {kTwo, kThree, kFour, kFive,
                                                          kSix, kSeven, kEight};
  return kWidths[bits - 2];
}

// Code `index` of a row or a column whose word i is word(i).
template <typename Word>
uint32_t code_at(WordLayout layout, uint64_t index, uint32_t bits, Word word) {
  if (layout == WordLayout::stream) {
    const auto shift = static_cast<uint32_t>(index * bits % 32);
    const uint64_t first = index * bits / 32;
    uint64_t two = static_cast<uint32_t>(word(first));
    if (shift + bits > 32) two |= uint64_t{static_cast<uint32_t>(word(first + 1))} << 32;
    return static_cast<uint32_t>(two >> shift) & ((1u << bits) - 1);
  }
  uint32_t code = 0, offset = 0;
  for (const uint32_t width : plane_widths(bits)) {
    const uint32_t bit = static_cast<uint32_t>(index % 32) * width;
    // The planes in front have had a word for each of their bits.
    const auto plane = static_cast<uint32_t>(word(index / 32 * bits + offset + bit / 32));
    code |= (plane >> bit % 32 & ((1u << width) - 1)) << offset;
    offset += width;
  }
  return code;
}

// Whether every zero point of a tensor [groups, words], which are zero(group, row) of rows of `n`,
// is the middle of the codes, as symmetric ones are. A word's place among each `bits` words says
// what it then holds, so that the first row's are looked at one by one, and words after that.
template <typename Zero>
bool all_in_the_middle(const TensorView& zeros, uint32_t bits, uint64_t n, Zero zero) {
  for (uint64_t row = 0; row < std::min<uint64_t>(n, 32); ++row) {
    if (zero(0, row) != 1u << (bits - 1)) return false;
  }
  for (uint64_t group = 0; group < zeros.shape[0]; ++group) {
    for (uint64_t word = 0; word < zeros.shape[1]; ++word) {
      if (word_at(zeros, group, word) != word_at(zeros, 0, word % bits)) return false;
    }
  }
  return true;
}

}  // namespace tenon::published
