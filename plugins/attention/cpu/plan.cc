#include "plugins/attention/cpu/plan.h"

#include <algorithm>
#include <numeric>

namespace tenon::attention_cpu {
namespace {

// Reading a tile of K and V costs about as much as multiplying this many queries with it.
constexpr uint64_t kTileQueries = 12;
// A slice's share is cut no finer than this: pieces behind it gain no balance worth a merge.
constexpr uint64_t kPiecesPerSlice = 4;
// KV heads whose results can wait to be merged, over all rows.
uint64_t most_splits(const PlanLimits& limits) {
  return 2 * kPiecesPerSlice * limits.slices;
}

uint32_t ranges_of(uint32_t tokens) {
  return (tokens + kRangeTokens - 1) / kRangeTokens;
}
uint32_t last_slot(const BatchView& batch, const WorkItem& item) {
  return batch.slots[item.last_row - 1];
}

}  // namespace

uint32_t rows_per_item(uint32_t largest_group) {
  return std::max(1u, kMaxQueries / std::max(1u, largest_group));
}

uint64_t useful_partials(const PlanLimits& limits) {
  if (limits.slices <= 1) return 0;
  // Items of prompts are many; only those of a few rows are worth splitting.
  const uint64_t queries = std::max<uint64_t>(limits.largest_group, 16);
  const uint64_t items =
      std::min(most_splits(limits), uint64_t{limits.max_sequences} * limits.kv_heads);
  constexpr uint64_t kEnough = 1 << 16;
  return std::min(items * ranges_of(limits.context_tokens) * queries, kEnough);
}

WorkPlan::WorkPlan(const PlanLimits& limits) : limits_(limits) {
  const uint64_t blocks =
      limits.max_rows / rows_per_item(limits.largest_group) + uint64_t{limits.max_sequences};
  const uint64_t splits = most_splits(limits);
  whole_.reserve(blocks);
  items_.reserve(blocks * limits.kv_heads + splits * (kPiecesPerSlice + 1) * limits.slices);
  splits_.reserve(splits);
  share_begin_.resize(limits.slices + 1);
}

void WorkPlan::make(GroupId group, const BatchView& batch) {
  whole_.clear();
  items_.clear();
  splits_.clear();
  partial_queries_ = 0;
  const uint32_t rows = rows_per_item(limits_.largest_group);
  for (const BatchSequence& sequence : batch.sequences) {
    const uint32_t end = sequence.first_row + sequence.rows;
    for (uint32_t row = sequence.first_row; row < end; row += rows) {
      add_rows(batch, sequence.tables[group].blocks.data(), row, std::min(row + rows, end));
    }
  }
  split_large_items(batch);
  share_out(batch);
}

void WorkPlan::add_rows(const BatchView& batch, const BlockId* blocks, uint32_t first_row,
                        uint32_t last_row) {
  uint32_t last = 0;
  for (uint32_t row = first_row; row < last_row; ++row) last = std::max(last, batch.slots[row]);
  whole_.push_back({.blocks = blocks,
                    .kv_head = 0,
                    .kv_heads = limits_.kv_heads,
                    .first_row = first_row,
                    .last_row = last_row,
                    .first_range = 0,
                    .last_range = last / kRangeTokens + 1,
                    .partial = kWhole});
}

// Of one head, in units of one query times one tile. An item's last row sees the most; the others
// nearly so.
uint64_t WorkPlan::cost(const WorkItem& item, uint32_t last_position) const {
  const uint64_t end =
      std::min<uint64_t>(last_position + 1, uint64_t{item.last_range} * kRangeTokens);
  uint64_t begin = uint64_t{item.first_range} * kRangeTokens;
  if (limits_.window_tokens != 0 && last_position >= limits_.window_tokens) {
    begin = std::max<uint64_t>(begin, last_position + 1 - limits_.window_tokens);
  }
  const uint64_t tiles = begin < end ? (end - begin + kTileTokens - 1) / kTileTokens : 0;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
  return 1 + tiles * (kTileQueries + queries);
}

// One item a head; heads that alone hold much of a slice's share (a long sequence with few of them)
// are cut at range boundaries, as far as there is room for the results.
void WorkPlan::split_large_items(const BatchView& batch) {
  uint64_t total = 0;
  for (const WorkItem& item : whole_) total += item.kv_heads * cost(item, last_slot(batch, item));
  const uint64_t most = total / (kPiecesPerSlice * limits_.slices) + 1;
  for (const WorkItem& item : whole_) {
    const uint64_t heads = item.kv_heads;
    uint64_t pieces = cost(item, last_slot(batch, item)) / most + 1;
    // Where a sequence is nearly alone, its pieces should come out even.
    if (heads < most_splits(limits_) / 2 && heads % limits_.slices != 0 &&
        whole_.size() < limits_.slices) {
      const uint64_t step = limits_.slices / std::gcd(heads, uint64_t{limits_.slices});
      pieces = (pieces + step - 1) / step * step;
    }
    pieces = std::min<uint64_t>(pieces, item.last_range);
    const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
    const bool room =
        partial_queries_ + heads * queries * item.last_range <= limits_.partial_queries &&
        splits_.size() + heads <= splits_.capacity();
    if (limits_.slices > 1 && pieces > 1 && room) {
      split(item, static_cast<uint32_t>(pieces));
    } else {
      add_heads(item);
    }
  }
}

void WorkPlan::add_heads(const WorkItem& item) {
  for (uint32_t head = 0; head < item.kv_heads; ++head) {
    WorkItem one = item;
    one.kv_head = head;
    one.kv_heads = 1;
    if (item.partial != kWhole) one.partial += head * item.partial_stride;
    items_.push_back(one);
  }
}

void WorkPlan::split(const WorkItem& item, uint32_t pieces) {
  const uint32_t ranges = item.last_range;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
  for (uint32_t head = 0; head < item.kv_heads; ++head) {
    splits_.push_back({.kv_head = head,
                       .first_row = item.first_row,
                       .last_row = item.last_row,
                       .ranges = ranges,
                       .partial = partial_queries_ + head * queries * ranges});
  }
  for (uint32_t i = 0; i < pieces; ++i) {
    WorkItem piece = item;
    piece.first_range = static_cast<uint32_t>(uint64_t{i} * ranges / pieces);
    piece.last_range = static_cast<uint32_t>(uint64_t{i + 1} * ranges / pieces);
    piece.partial = partial_queries_;
    piece.partial_stride = queries * ranges;
    add_heads(piece);
  }
  partial_queries_ += item.kv_heads * queries * ranges;
}

// Neighbouring items stay together: they read the same blocks.
void WorkPlan::share_out(const BatchView& batch) {
  uint64_t total = 0;
  for (const WorkItem& item : items_) total += cost(item, last_slot(batch, item));
  uint64_t done = 0;
  uint32_t share = 0;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    const uint64_t mine = cost(items_[i], last_slot(batch, items_[i]));
    // An item belongs to the share in which its middle lies.
    while (share < limits_.slices && (done + mine / 2) * limits_.slices >= total * share) {
      share_begin_[share++] = i;
    }
    done += mine;
  }
  while (share <= limits_.slices) share_begin_[share++] = static_cast<uint32_t>(items_.size());
  join_heads();
}

// Neighbouring heads of a share become one item: in a block they lie side by side.
void WorkPlan::join_heads() {
  const auto follows = [this](const WorkItem& last, const WorkItem& next) {
    const uint64_t queries = uint64_t{last.last_row - last.first_row} * limits_.largest_group;
    return next.first_row == last.first_row && next.first_range == last.first_range &&
           next.kv_head == last.kv_head + last.kv_heads &&
           (last.kv_heads + 1) * queries <= kMaxQueries;
  };
  uint32_t kept = 0;
  for (uint32_t share = 0; share < limits_.slices; ++share) {
    const uint32_t begin = share_begin_[share];
    share_begin_[share] = kept;
    for (uint32_t i = begin; i < share_begin_[share + 1]; ++i) {
      if (kept > share_begin_[share] && follows(items_[kept - 1], items_[i])) {
        ++items_[kept - 1].kv_heads;
      } else {
        items_[kept++] = items_[i];
      }
    }
  }
  share_begin_[limits_.slices] = kept;
  items_.resize(kept);
}

std::span<const WorkItem> WorkPlan::share(uint32_t index) const {
  return std::span<const WorkItem>(items_).subspan(share_begin_[index],
                                                   share_begin_[index + 1] - share_begin_[index]);
}

}  // namespace tenon::attention_cpu
