// The attention kernels' part of kernel_cost.h: blocks are walked, since what they read depends on
// what their rows see.
#include <algorithm>
#include <set>

#include "bench/cuda/kernel_cost.h"
#include "bench/cuda/product_cost.h"

namespace tenon::cuda::bench {
namespace {

constexpr uint64_t kEntries = 32;  // of a step
constexpr uint64_t kMma = 2 * 16 * 8 * 16;
constexpr uint64_t kLatentWarps = 4;  // that share a tile of latent attention

struct Range {
  uint64_t first = 0, last = 0;
  uint64_t size() const { return last > first ? last - first : 0; }
};

uint64_t first_seen(uint64_t slot, uint32_t window) {
  return window == 0 || slot < window ? 0 : slot - window + 1;
}

class AttentionCounter {
 public:
  AttentionCounter(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                   bool has_slopes)
      : shape_(shape),
        sequences_(sequences),
        head_dim_(number(shape.cache.head_dim)),
        v_dim_(number(shape.v_dim)),
        kv_heads_(number(shape.cache.kv_heads)),
        per_row_(number(shape.heads) / kv_heads_),
        latent_(v_dim_ != head_dim_),
        slope_(has_slopes ? kWord : 0) {}

  Cost attend() const {
    const bool tiles = has_tiles();
    Cost cost = moved(tiles);
    for (const SequenceRows& sequence : sequences_) {
      if (tiles) {
        add_tiles(sequence, cost);
      } else {
        add_plain(sequence, cost);
      }
    }
    return cost;
  }

  Cost combine(bool has_sinks) const {
    const uint64_t heads = number(shape_.heads);
    const uint64_t out = shape_.out_type == Input::f32 ? 4 : 2;
    Cost cost;
    if (has_sinks) cost.read_bytes += heads * kWord;
    for (const SequenceRows& sequence : sequences_) {
      for (uint64_t slot = sequence.entries - sequence.rows; slot < sequence.entries; ++slot) {
        const uint64_t ranges = slot / kSplitEntries + 1;
        // Ranges in front of the window have sums that say so, and nothing else of them is read.
        const uint64_t seen = ranges - first_seen(slot, shape_.window) / kSplitEntries;
        const uint64_t sums = (ranges + seen) * kWord;
        const uint64_t partial = seen * v_dim_ * kWord;
        cost.read_bytes += kWord + heads * (sums + partial);
        cost.written_bytes += heads * v_dim_ * out;
        cost.issued_bytes += heads * (kRowThreads * kWord + v_dim_ * sums + partial +
                                      v_dim_ * ((has_sinks ? kWord : 0) + out));
      }
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
  // What stands behind a row's elements.
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

  // What all blocks together touch, each byte once.
  Cost moved(bool tiles) const {
    const uint64_t row_heads = uint64_t{shape_.rows} * number(shape_.heads);
    Cost cost;
    cost.written_bytes = shape_.splits * row_heads * (v_dim_ + 2) * kWord;
    cost.read_bytes = row_heads * head_dim_ * kWord + shape_.rows * kWord;
    cost.read_bytes += number(shape_.heads) * slope_;
    cost.read_bytes += tiles ? shape_.tiles * 2 * kWord + sequences_.size() * 3 * kWord
                             : shape_.rows * kWord + sequences_.size() * kWord;
    for (const SequenceRows& sequence : sequences_) {
      const uint64_t first = first_seen(sequence.entries - sequence.rows, shape_.window);
      const uint64_t tokens = number(shape_.cache.block_tokens);
      cost.read_bytes += ((sequence.entries - 1) / tokens - first / tokens + 1) * kWord;
      cost.read_bytes += planes() * (sequence.entries - first) * kv_heads_ * row_bytes();
    }
    return cost;
  }

  // Entries that slots first_slot … last_slot see in a range.
  Range seen(uint64_t first_slot, uint64_t last_slot, uint64_t split) const {
    return {std::max(first_seen(first_slot, shape_.window), split * kSplitEntries),
            std::min(last_slot + 1, (split + 1) * kSplitEntries)};
  }

  void add_tiles(const SequenceRows& sequence, Cost& cost) const {
    // Warps of a block, and those that look at an item.
    const uint64_t warps = latent_ ? kLatentWarps : number(shape_.warps);
    const uint64_t lookers = latent_ ? kLatentWarps : 1;
    const uint64_t tile_items = kTileItems * warps / lookers;
    const uint64_t mma = latent_ ? head_dim_ / 4 + v_dim_ / 4 : warps * (head_dim_ / 2);
    const uint64_t items = sequence.rows * per_row_;
    const uint64_t first_slot = sequence.entries - sequence.rows;
    for (uint64_t item = 0; item < items; item += tile_items) {
      const uint64_t own = std::min(tile_items, items - item);
      for (uint64_t split = 0; split < shape_.splits; ++split) {
        const Range range =
            seen(first_slot + item / per_row_, first_slot + (item + own - 1) / per_row_, split);
        // Numbers of the tile and its sequence, and of slots; queries; tables; K and V; results.
        uint64_t issued = warps * 32 * 7 * kWord + own * 4 * lookers * (kWord + slope_);
        issued += own * head_dim_ * kWord;
        issued += range.size() * (warps * kWord + planes() * copied_bytes());
        issued += own * (v_dim_ + 2) * kWord;
        cost.issued_bytes += kv_heads_ * issued;
        if (range.size() == 0) continue;
        const uint64_t steps =
            (range.last - range.first / kEntries * kEntries + kEntries - 1) / kEntries;
        cost.operations += kv_heads_ * steps * mma * kMma;
      }
    }
  }

  void add_plain(const SequenceRows& sequence, Cost& cost) const {
    for (uint64_t slot = sequence.entries - sequence.rows; slot < sequence.entries; ++slot) {
      for (uint64_t split = 0; split < shape_.splits; ++split) {
        uint64_t issued = 32 * (3 * kWord + slope_) + (head_dim_ + v_dim_ + 2) * kWord;
        issued += seen(slot, slot, split).size() * (32 * kWord + plain_bytes());
        cost.issued_bytes += number(shape_.heads) * issued;
      }
    }
  }

  const AttentionShape& shape_;
  std::span<const SequenceRows> sequences_;
  uint64_t head_dim_, v_dim_, kv_heads_, per_row_;
  bool latent_;
  uint64_t slope_;  // bytes
};

}  // namespace

AttentionCost attention_cost(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                             bool has_sinks, bool has_slopes) {
  const AttentionCounter counter(shape, sequences, has_slopes);
  return {counter.attend(), counter.combine(has_sinks)};
}

}  // namespace tenon::cuda::bench
