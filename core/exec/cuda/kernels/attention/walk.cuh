// What a block of attention looks at: the items of a tile, what their rows see, and the steps of
// a range each in which it walks along that.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/cache_rows.cuh"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

// Of K and V in shared memory: a step is a range.
inline constexpr int kEntries = static_cast<int>(kSplitEntries);

struct AttentionView {
  Global<const float> q;
  Global<const BFloat16> k, v;             // of tiles; attend_plain has its own
  Global<const uint8_t> k_bytes, v_bytes;  // in place of k and v, of i8 and i4
  Global<const uint32_t> sequences;        // AttentionSequence, 3 numbers each
  Global<const uint32_t> tiles;            // AttentionTile, 2 numbers each
  Global<const uint32_t> slots;
  Global<const uint32_t> parents;
  Global<const int32_t> tables;
  Global<const uint32_t> first_ranges, split_rows;
  Global<const float> slopes, sinks;
  Global<float> partial, sums;
  Global<float> out;  // of f32, or null
  Global<BFloat16> out_bf16;
  int heads, kv_heads, head_dim, v_dim, block_tokens;
  int v_stride;  // of `partial`
  int q_stride, out_stride, out_head_stride;
  int row_bytes, scale_at;  // of i8 and i4
  CacheType type;
  uint32_t window;
  float scale, cap, by_cap;  // by_cap: 1 / cap
  // Scores are products times `factor`, base 2; where `judged`, what judged_score makes of them.
  bool judged;
  float factor;
};

// The items of one tile, and what its sequence is.
struct Items {
  uint32_t first_row, count, first_entry, first;
  int group;  // query heads of a KV head
  int kv_head;

  TENON_DEVICE Items(const AttentionView& a, uint32_t tile, int head) : kv_head(head) {
    const int64_t sequence = uint32_t{a.tiles[2 * static_cast<int64_t>(tile)]};
    first = a.tiles[2 * static_cast<int64_t>(tile) + 1];
    group = a.heads / a.kv_heads;
    first_row = a.sequences[3 * sequence];
    count = a.sequences[3 * sequence + 1] * static_cast<uint32_t>(group);
    first_entry = a.sequences[3 * sequence + 2];
  }
  TENON_DEVICE bool there(uint32_t item) const { return item < count; }
  TENON_DEVICE uint32_t row(uint32_t item) const {
    return first_row + item / static_cast<uint32_t>(group);
  }
  TENON_DEVICE int head(uint32_t item) const {
    return kv_head * group + static_cast<int>(item % static_cast<uint32_t>(group));
  }
  // The last row of so many items from `from` on.
  TENON_DEVICE uint32_t last_row(uint32_t from, uint32_t some) const {
    return row((from + some < count ? from + some : count) - 1);
  }
};

// Entries first … last-1 that a row sees; first_visible of <tenon/model.h>.
struct Visible {
  uint32_t first = 0, last = 0;
  TENON_DEVICE Visible() {}
  TENON_DEVICE Visible(uint32_t slot, uint32_t window)
      : first(window == 0 || slot < window ? 0 : slot - window + 1), last(slot + 1) {}
  TENON_DEVICE uint32_t first_range() const { return first / kSplitEntries; }
  TENON_DEVICE uint32_t range_end() const { return (last + kSplitEntries - 1) / kSplitEntries; }
  TENON_DEVICE bool some_from(uint32_t entry) const {
    return entry < last && entry + kSplitEntries > first;
  }
};

// Which row of its plane the entry in a slot is.
TENON_DEVICE int entry_row(const AttentionView& a, const Items& items, uint32_t slot) {
  const uint32_t tokens = static_cast<uint32_t>(a.block_tokens);
  const int block = a.tables[static_cast<int64_t>(items.first_entry + slot / tokens)];
  return (block * a.kv_heads + items.kv_head) * a.block_tokens + static_cast<int>(slot % tokens);
}

// The slot of an entry on the way to a tree's row, behind `base` entries that all its rows see:
// rows are stored one behind the other, whatever row each of them follows.
TENON_DEVICE uint32_t path_slot(const AttentionView& a, uint32_t first_row, uint32_t base,
                                uint32_t row, uint32_t entry) {
  uint32_t at = row;
  for (uint32_t up = a.slots[static_cast<int64_t>(row)] - entry; up > 0; --up) {
    at = a.parents[static_cast<int64_t>(at)];
  }
  return base + at - first_row;
}

// A block's way through what its rows see: along all ranges, or the steps of one, which is counted
// from the first that they see.
//   more, entry, advance  the steps: kEntries entries from `entry` on
//   place                 which row of its plane an entry of the step is; -1: nobody sees it
//   show                  what of a step an item sees, of all that its row does
struct Way {
  bool split;
  uint32_t range;
};

// Rows that follow each other: an entry is a slot. Their windows move forward with them.
class ChainWalk {
 public:
  TENON_DEVICE ChainWalk(const AttentionView& a, const Items& items, uint32_t block_items,
                         Way way) {
    const Visible first_row(a.slots[static_cast<int64_t>(items.row(items.first))], a.window);
    seen_ =
        Visible(a.slots[static_cast<int64_t>(items.last_row(items.first, block_items))], a.window);
    seen_.first = first_row.first;
    entry_ = (seen_.first_range() + (way.split ? way.range : 0)) * kSplitEntries;
    end_ = seen_.last;
    if (way.split && end_ > entry_ + kSplitEntries) end_ = entry_ + kSplitEntries;
  }
  TENON_DEVICE bool more() const { return entry_ < end_; }
  TENON_DEVICE uint32_t entry() const { return entry_; }
  TENON_DEVICE void advance(const AttentionView&) { entry_ += kSplitEntries; }
  TENON_DEVICE int place(const AttentionView& a, const Items& items, uint32_t which) const {
    const uint32_t own = entry_ + which;
    if (own < seen_.first || own >= seen_.last) return -1;
    return entry_row(a, items, own);
  }
  TENON_DEVICE Visible show(Visible seen, uint32_t) const { return seen; }

 private:
  Visible seen_;  // what any row of the block sees
  uint32_t entry_, end_;
};

// Rows that form a tree. They see the same entries up to the step in which the tree begins, and
// from there on each has entries of its own: those of the path to it, in its order. So a block
// walks together as far as it can, then along the end of each row's path, which the other rows do
// not see. A row's sums are those of its path as a chain, bit for bit.
class TreeWalk {
 public:
  TENON_DEVICE TreeWalk(const AttentionView& a, const Items& items, uint32_t block_items, Way way)
      : first_row_(items.first_row),
        next_row_(items.row(items.first)),
        last_row_(items.last_row(items.first, block_items)) {
    base_ = a.slots[static_cast<int64_t>(items.first_row)];
    // Blocks are there from the first entry on that the first row sees.
    seen_ = Visible(base_, a.window);
    if (way.split) {
      begin_ = (seen_.first_range() + way.range) * kSplitEntries;
      range_end_ = begin_ + kSplitEntries;
    }
    seen_.last = base_ / kSplitEntries * kSplitEntries;
    enter();
    if (entry_ >= end_) next_path(a);
  }
  TENON_DEVICE bool more() const { return entry_ < end_; }
  TENON_DEVICE uint32_t entry() const { return entry_; }
  TENON_DEVICE void advance(const AttentionView& a) {
    entry_ += kSplitEntries;
    if (entry_ >= end_) next_path(a);
  }
  TENON_DEVICE int place(const AttentionView& a, const Items& items, uint32_t which) const {
    const uint32_t own = entry_ + which;
    if (own < seen_.first || own >= seen_.last) return -1;
    return entry_row(a, items, own < base_ ? own : path_slot(a, first_row_, base_, row_, own));
  }
  TENON_DEVICE Visible show(Visible seen, uint32_t row) const {
    return row_ == kAllRows || row_ == row ? seen : Visible();
  }

 private:
  static constexpr uint32_t kAllRows = 0xffffffffu;

  // To the first step of what `seen_` shows of the ranges.
  TENON_DEVICE void enter() {
    end_ = seen_.last < range_end_ ? seen_.last : range_end_;
    const uint32_t first = seen_.first_range() * kSplitEntries;
    entry_ = first > begin_ ? first : begin_;
  }
  TENON_DEVICE void next_path(const AttentionView& a) {
    const uint32_t shared = base_ / kSplitEntries * kSplitEntries;
    while (entry_ >= end_ && next_row_ <= last_row_) {
      row_ = next_row_++;
      seen_ = Visible(a.slots[static_cast<int64_t>(row_)], a.window);
      if (seen_.first < shared) seen_.first = shared;
      enter();
    }
  }

  uint32_t first_row_, next_row_, last_row_;
  uint32_t begin_ = 0, range_end_ = 0xffffffffu;
  uint32_t base_;  // entries in front of the tree
  uint32_t row_ = kAllRows;
  Visible seen_;
  uint32_t entry_ = 0, end_ = 0;
};

}  // namespace tenon::cuda
