// Sets of bytes below 128; of other bytes it is known only that there are some.
#pragma once

#include <cstdint>

namespace tenon::grammar {

struct AsciiSet {
  uint64_t low = 0, high = 0;
  bool others = false;

  void add(uint8_t byte) {
    if (byte >= 128) {
      others = true;
    } else {
      (byte < 64 ? low : high) |= uint64_t{1} << (byte % 64);
    }
  }
  void add(const AsciiSet& more) {
    low |= more.low;
    high |= more.high;
    others = others || more.others;
  }
  // `byte` is below 128.
  bool has(uint8_t byte) const { return ((byte < 64 ? low : high) >> (byte % 64) & 1) != 0; }
  bool operator==(const AsciiSet&) const = default;
  // All of it is below 128 and in `set`.
  bool is_within(const AsciiSet& set) const {
    return (low & ~set.low) == 0 && (high & ~set.high) == 0 && !others;
  }
};

}  // namespace tenon::grammar
