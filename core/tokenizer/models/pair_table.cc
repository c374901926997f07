#include "core/tokenizer/models/pair_table.h"

#include <algorithm>
#include <bit>

namespace tenon::tok {
namespace {

// By chance it takes less than a hundred, also for millions of rules.
constexpr size_t kLongestProbe = 256;

}  // namespace

PairTable::PairTable(size_t most_rules)
    : slots_(std::bit_ceil(2 * most_rules + 1), Slot{kEmpty, {0, 0}}) {}

Status PairTable::insert(Symbol left, Symbol right, MergeRule rule) {
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  for (size_t probe = 0; probe < kLongestProbe; ++probe) {
    if (slots_[slot].key == kEmpty || slots_[slot].key == key) {
      slots_[slot] = {key, rule};
      probes_ = std::max(probes_, probe + 1);
      return Status();
    }
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return invalid_argument("the merges collide in their table; the file was made so");
}

}  // namespace tenon::tok
