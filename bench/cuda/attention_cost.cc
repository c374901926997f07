// The attention kernels' part of kernel_cost.h: blocks are walked, since what they read depends on
// what their rows see.
#include <algorithm>

#include "bench/cuda/kernel_cost.h"
#include "bench/cuda/product_cost.h"

namespace tenon::cuda::bench {
namespace {

constexpr uint64_t kMma = 2 * 16 * 8 * 16;
constexpr uint64_t kFewWarps = 4;   // that share a tile of few items
constexpr uint64_t kWideWarps = 8;  // of a block of prompts

struct Range {
  uint64_t first = 0, last = 0;
  uint64_t size() const { return last > first ? last - first : 0; }
  // Steps of kSplitEntries, of which the first and the last may be seen in part.
  uint64_t steps() const {
    return size() == 0 ? 0 : (last - 1) / kSplitEntries - first / kSplitEntries + 1;
  }
};

uint64_t first_seen(uint64_t slot, uint32_t window) {
  return window == 0 || slot < window ? 0 : slot - window + 1;
}

class AttentionCounter {
 public:
  AttentionCounter(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                   bool has_sinks, bool has_slopes)
      : shape_(shape),
        sequences_(sequences),
        head_dim_(number(shape.cache.head_dim)),
        v_dim_(number(shape.v_dim)),
        heads_(number(shape.heads)),
        kv_heads_(number(shape.cache.kv_heads)),
        per_row_(heads_ / kv_heads_),
        latent_(v_dim_ != head_dim_),
        split_(shape.split_rows > 0),
        out_(shape.out_type == Input::f32 ? 4 : 2),
        sink_(has_sinks ? kWord : 0),
        slope_(has_slopes ? kWord : 0) {}

  AttentionCost all() const {
    AttentionCost cost;
    if (!has_tiles()) {
      for (const SequenceRows& sequence : sequences_) add_plain(sequence, cost.few);
      cost.few.read_bytes += heads_ * (slope_ + (all_split() ? 0 : sink_));
    } else {
      bool few = false, wide = false;
      for (const SequenceRows& sequence : sequences_) {
        if (is_wide(sequence)) {
          add_wide(sequence, cost.wide);
          wide = true;
        } else {
          add_few(sequence, cost.few);
          few = true;
        }
      }
      if (few) cost.few.read_bytes += heads_ * (slope_ + (split_ ? 0 : sink_));
      if (wide) cost.wide.read_bytes += heads_ * (slope_ + sink_);
    }
    if (split_) cost.join.read_bytes += heads_ * sink_;
    for (const SequenceRows& sequence : sequences_) {
      if (is_split(sequence)) add_joined(sequence, cost.join);
    }
    return cost;
  }

 private:
  bool has_tiles() const {
    if (shape_.cache.type == CacheType::f32) return false;
    if (latent_) return head_dim_ == 576 && v_dim_ == 512;
    return head_dim_ == 64 || head_dim_ == 80 || head_dim_ == 96 || head_dim_ == 128 ||
           head_dim_ == 256;
  }
  bool is_wide(const SequenceRows& sequence) const {
    return shape_.wide_tiles > 0 && sequence.rows > 1 && sequence.rows * per_row_ >= kWideItems;
  }
  bool is_split(const SequenceRows& sequence) const { return split_ && !is_wide(sequence); }
  bool all_split() const {
    for (const SequenceRows& sequence : sequences_) {
      if (!is_split(sequence)) return false;
    }
    return true;
  }
  // The bytes after a row's elements.
  uint64_t scale_bytes() const {
    return shape_.cache.type == CacheType::i8 ? 2 : shape_.cache.type == CacheType::i4 ? 4 : 0;
  }
  uint64_t element_bits() const {
    switch (shape_.cache.type) {
      case CacheType::f32:
        return 32;
      case CacheType::bf16:
        return 16;
      case CacheType::i8:
        return 8;
      default:
        return 4;
    }
  }
  uint64_t row_bytes() const { return ceiling(head_dim_ * element_bits(), 8) + scale_bytes(); }
  // Of a row on its way to shared memory: scales are asked for with each 8 elements.
  uint64_t copied_bytes() const { return head_dim_ / 8 * (element_bits() + scale_bytes()); }
  // Of elements that are read one by one.
  uint64_t plain_bytes() const {
    return (head_dim_ + v_dim_) * (ceiling(element_bits(), 8) + scale_bytes());
  }
  uint64_t planes() const { return latent_ ? 1 : 2; }

  // Entries that slots first_slot … last_slot see, and those in a range that is counted from their
  // first.
  Range seen(uint64_t first_slot, uint64_t last_slot) const {
    return {first_seen(first_slot, shape_.window), last_slot + 1};
  }
  static Range in_range(const Range& all, uint64_t which) {
    const uint64_t begin = (all.first / kSplitEntries + which) * kSplitEntries;
    return {std::max(all.first, begin), std::min(all.last, begin + kSplitEntries)};
  }
  uint64_t first_slot(const SequenceRows& sequence) const {
    return sequence.entries - sequence.rows;
  }

  // What all blocks of a sequence touch together, each byte once, but for what tells them of it.
  Cost moved(const SequenceRows& sequence) const {
    Cost cost;
    const uint64_t row_heads = sequence.rows * heads_;
    cost.read_bytes = row_heads * head_dim_ * kWord + sequence.rows * kWord;
    const Range all = seen(first_slot(sequence), sequence.entries - 1);
    const uint64_t tokens = number(shape_.cache.block_tokens);
    cost.read_bytes += ((all.last - 1) / tokens - all.first / tokens + 1) * kWord;
    cost.read_bytes += planes() * all.size() * kv_heads_ * row_bytes();
    if (!is_split(sequence)) {
      cost.written_bytes = row_heads * v_dim_ * out_;
      return cost;
    }
    for (uint64_t slot = first_slot(sequence); slot < sequence.entries; ++slot) {
      cost.written_bytes += seen(slot, slot).steps() * heads_ * (v_dim_ + 2) * kWord;
    }
    return cost;
  }

  void add_few(const SequenceRows& sequence, Cost& cost) const {
    const uint64_t items = sequence.rows * per_row_;
    const uint64_t threads = kFewWarps * 32;
    const uint64_t lookers = 4 * kFewWarps;  // threads that know an item
    cost += moved(sequence);
    cost.read_bytes += 3 * kWord;
    uint64_t ways_read = 0;  // rows whose first_ranges are
    for (uint64_t item = 0; item < items; item += kTileItems) {
      const uint64_t own = std::min<uint64_t>(kTileItems, items - item);
      const uint64_t slot = first_slot(sequence) + item / per_row_;
      const Range all = seen(slot, first_slot(sequence) + (item + own - 1) / per_row_);
      cost.read_bytes += 2 * kWord;
      if (item == 0 || item / per_row_ != (item - kTileItems) / per_row_) ++ways_read;
      for (uint64_t which = 0; which < shape_.splits; ++which) {
        // Numbers of the tile and its sequence, how ranges are computed, slots.
        cost.issued_bytes += kv_heads_ * threads * 8 * kWord;
        const Range range = split_ ? in_range(all, which) : all;
        if (range.size() == 0) continue;
        uint64_t issued = own * lookers * (kWord + slope_) + own * head_dim_ * kWord;
        issued += range.size() * (kFewWarps / 2 * kWord + planes() * copied_bytes());
        for (uint64_t i = item; i < item + own; ++i) {
          if (!split_) {
            issued += lookers * sink_ + v_dim_ * out_;
            continue;
          }
          const uint64_t row = first_slot(sequence) + i / per_row_;
          const uint64_t entry = range.first / kSplitEntries * kSplitEntries;
          if (entry > row || entry + kSplitEntries <= first_seen(row, shape_.window)) continue;
          issued += lookers * kWord + (v_dim_ + 2) * kWord;
        }
        cost.issued_bytes += kv_heads_ * issued;
        cost.operations += kv_heads_ * range.steps() * (head_dim_ + v_dim_) / 2 * kMma;
      }
    }
    cost.read_bytes += (split_ ? sequence.rows : ways_read) * kWord;
  }

  void add_wide(const SequenceRows& sequence, Cost& cost) const {
    const uint64_t items = sequence.rows * per_row_;
    // Warps that have the same items, each with a part of V's columns.
    const uint64_t parts = head_dim_ > 128 ? 2 : 1;
    const uint64_t threads = kWideWarps * 32;
    const uint64_t block_items = 16 * kWideWarps / parts;
    cost += moved(sequence);
    cost.read_bytes += 3 * kWord;
    for (uint64_t item = 0; item < ceiling(items, kWideItems) * kWideItems; item += block_items) {
      if (item % kWideItems == 0) cost.read_bytes += 2 * kWord;
      uint64_t issued = threads * 5 * kWord;
      if (item < items) {
        const uint64_t own = std::min(block_items, items - item);
        const auto sees = [&](uint64_t from, uint64_t count) {
          const uint64_t last = std::min(from + count, items) - 1;
          return seen(first_slot(sequence) + from / per_row_,
                      first_slot(sequence) + last / per_row_);
        };
        issued += threads * 2 * kWord + own * 4 * parts * sink_;
        issued += own * (head_dim_ * kWord + v_dim_ * out_);
        issued += sees(item, block_items).size() * (kWideWarps / 2 * kWord + 2 * copied_bytes());
        for (uint64_t warp = item; warp < item + own; warp += 16) {
          // Slots of its first and its last row; where one may not see all, those of its items.
          const uint64_t looked = looked_at(sees(warp, 1), sees(warp, 16));
          const uint64_t warp_items = std::min<uint64_t>(16, items - warp);
          issued += parts * (32 * 2 * kWord + looked * warp_items * 4 * (kWord + slope_));
          cost.operations +=
              kv_heads_ * sees(warp, 16).steps() * (parts + 1) * head_dim_ / 2 * kMma;
        }
      }
      cost.issued_bytes += kv_heads_ * issued;
    }
  }

  // Steps of a warp that do not show all of themselves to all of its rows; with a cap or slopes all
  // steps. `any`: what some row sees, `low` the first one.
  uint64_t looked_at(const Range& low, const Range& any) const {
    const bool judged = shape_.cap > 0.0f || slope_ > 0;
    const uint64_t high_first = first_seen(any.last - 1, shape_.window);
    uint64_t looked = 0;
    const uint64_t first = any.first / kSplitEntries;
    for (uint64_t step = first; step < first + any.steps(); ++step) {
      const uint64_t entry = step * kSplitEntries;
      looked += judged || entry < high_first || entry + kSplitEntries > low.last;
    }
    return looked;
  }

  void add_plain(const SequenceRows& sequence, Cost& cost) const {
    cost += moved(sequence);
    cost.read_bytes += 2 * sequence.rows * kWord + kWord;
    for (uint64_t slot = first_slot(sequence); slot < sequence.entries; ++slot) {
      const Range all = seen(slot, slot);
      for (uint64_t which = 0; which < shape_.splits; ++which) {
        uint64_t issued = 32 * 2 * kWord;
        const Range range = is_split(sequence) ? in_range(all, which) : which == 0 ? all : Range();
        if (range.size() > 0) {
          issued += 32 * (2 * kWord + slope_) + head_dim_ * kWord;
          issued += range.size() * (32 * kWord + plain_bytes());
          issued += is_split(sequence) ? (v_dim_ + 2) * kWord : 32 * sink_ + v_dim_ * out_;
        }
        cost.issued_bytes += heads_ * issued;
      }
    }
  }

  void add_joined(const SequenceRows& sequence, Cost& cost) const {
    const uint64_t parts = ceiling(v_dim_, kRowThreads);
    for (uint64_t slot = first_slot(sequence); slot < sequence.entries; ++slot) {
      const uint64_t ranges = seen(slot, slot).steps();
      cost.read_bytes += 3 * kWord + heads_ * ranges * (v_dim_ + 2) * kWord;
      cost.written_bytes += heads_ * v_dim_ * out_;
      cost.issued_bytes += heads_ * (parts * (kRowThreads * 3 + ranges * 2) * kWord +
                                     ranges * v_dim_ * kWord + v_dim_ * (sink_ + out_));
    }
  }

  const AttentionShape& shape_;
  std::span<const SequenceRows> sequences_;
  uint64_t head_dim_, v_dim_, heads_, kv_heads_, per_row_;
  bool latent_, split_;
  uint64_t out_, sink_, slope_;  // bytes
};

}  // namespace

AttentionCost attention_cost(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                             bool has_sinks, bool has_slopes) {
  return AttentionCounter(shape, sequences, has_sinks, has_slopes).all();
}

}  // namespace tenon::cuda::bench
