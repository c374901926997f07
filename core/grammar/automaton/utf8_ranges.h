// Ranges of characters as ranges of their UTF-8 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/grammar/automaton/code_set.h"

namespace tenon::grammar {

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;  // included
};
// One byte of each range, in this order; every such string is a character.
struct Utf8Range {
  std::array<ByteRange, 4> bytes{};
  uint32_t length = 0;
};

std::vector<Utf8Range> utf8_ranges(const CodeSet& codes);

}  // namespace tenon::grammar
