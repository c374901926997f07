#include "plugins/attention/cpu/plan.h"

#include <algorithm>

namespace tenon::attention_cpu {
namespace {

// Reading a tile of K and V costs about as much as multiplying this many queries with it.
constexpr uint64_t kTileQueries = 12;
// A slice's share is cut no finer than this: pieces behind it gain no balance worth a merge.
constexpr uint64_t kPiecesPerSlice = 4;

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
  const uint64_t items = std::min<uint64_t>(kPiecesPerSlice * limits.slices,
                                            uint64_t{limits.max_sequences} * limits.kv_heads);
  constexpr uint64_t kEnough = 1 << 16;
  return std::min(items * ranges_of(limits.context_tokens) * queries, kEnough);
}

WorkPlan::WorkPlan(const PlanLimits& limits) : limits_(limits) {
  const uint64_t blocks =
      limits.max_rows / rows_per_item(limits.largest_group) + uint64_t{limits.max_sequences};
  const uint64_t items = blocks * limits.kv_heads;
  const uint64_t splits = kPiecesPerSlice * limits.slices;
  whole_.reserve(items);
  items_.reserve(items + splits * (kPiecesPerSlice * limits.slices + 1));
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
  for (uint32_t head = 0; head < limits_.kv_heads; ++head) {
    whole_.push_back({.blocks = blocks,
                      .kv_head = head,
                      .first_row = first_row,
                      .last_row = last_row,
                      .first_range = 0,
                      .last_range = last / kRangeTokens + 1,
                      .partial = kWhole});
  }
}

// In units of one query times one tile. An item's last row sees the most; the others nearly so.
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

// Items that alone hold much of a slice's share (a long sequence with few heads) are cut at range
// boundaries, as far as there is room for the results.
void WorkPlan::split_large_items(const BatchView& batch) {
  uint64_t total = 0;
  for (const WorkItem& item : whole_) total += cost(item, last_slot(batch, item));
  const uint64_t most = total / (kPiecesPerSlice * limits_.slices) + 1;
  for (const WorkItem& item : whole_) {
    const uint64_t pieces =
        std::min<uint64_t>(cost(item, last_slot(batch, item)) / most + 1, item.last_range);
    const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
    const bool room = partial_queries_ + queries * item.last_range <= limits_.partial_queries &&
                      splits_.size() < splits_.capacity();
    if (limits_.slices > 1 && pieces > 1 && room) {
      split(item, static_cast<uint32_t>(pieces));
    } else {
      items_.push_back(item);
    }
  }
}

void WorkPlan::split(const WorkItem& item, uint32_t pieces) {
  const uint32_t ranges = item.last_range;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
  splits_.push_back({.kv_head = item.kv_head,
                     .first_row = item.first_row,
                     .last_row = item.last_row,
                     .ranges = ranges,
                     .partial = partial_queries_});
  for (uint32_t i = 0; i < pieces; ++i) {
    WorkItem piece = item;
    piece.first_range = static_cast<uint32_t>(uint64_t{i} * ranges / pieces);
    piece.last_range = static_cast<uint32_t>(uint64_t{i + 1} * ranges / pieces);
    piece.partial = partial_queries_;
    items_.push_back(piece);
  }
  partial_queries_ += queries * ranges;
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
}

std::span<const WorkItem> WorkPlan::share(uint32_t index) const {
  return std::span<const WorkItem>(items_).subspan(share_begin_[index],
                                                   share_begin_[index + 1] - share_begin_[index]);
}

}  // namespace tenon::attention_cpu
