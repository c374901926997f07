// Which pairs of symbols merge, how early, and into what.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"

namespace tenon::tok {

// A piece of text while it is merged: a token id, or, at or beyond the size of the vocabulary, a
// character that is no token itself.
using Symbol = int32_t;

struct MergeRule {
  uint32_t rank;  // lower merges first
  Symbol result;
};

// Open addressing keyed by the pair; immutable and safe to read from any thread after filling.
class PairTable {
 public:
  explicit PairTable(size_t most_rules = 0);

  // A rule given again replaces the earlier one. Error: invalid_argument, when keys collide so
  // often that they must have been chosen for it.
  Status insert(Symbol left, Symbol right, MergeRule rule);

  const MergeRule* find(Symbol left, Symbol right) const {
    const uint64_t key = key_of(left, right);
    size_t slot = slot_of(key);
    for (size_t probe = 0; probe < probes_; ++probe) {
      if (slots_[slot].key == key) return &slots_[slot].rule;
      if (slots_[slot].key == kEmpty) return nullptr;
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return nullptr;
  }

 private:
  struct Slot {
    uint64_t key;
    MergeRule rule;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no symbol is negative

  static uint64_t key_of(Symbol left, Symbol right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & (slots_.size() - 1);
  }
  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t probes_ = 0;        // the most that finding a pair takes
};

}  // namespace tenon::tok
