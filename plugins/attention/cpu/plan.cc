#include "plugins/attention/cpu/plan.h"

#include <tenon/extensions/attention_chunks.h>

#include <algorithm>
#include <new>
#include <numeric>

namespace tenon::attention_cpu {
namespace {

// Reading a tile of K and V costs about as much as multiplying this many queries with it.
constexpr uint64_t kTileQueries = 12;
// A slice's share is cut no finer than this: pieces after it gain no balance worth a merge.
constexpr uint64_t kPiecesPerSlice = 4;
// KV heads whose results can wait to be merged, over all rows.
uint64_t most_splits(const PlanLimits& limits) {
  return 2 * kPiecesPerSlice * limits.slices;
}
uint64_t most_whole(const PlanLimits& limits) {
  return limits.max_rows / rows_per_item(limits) + uint64_t{limits.max_sequences};
}
// A split head has fewer than (kPiecesPerSlice + 1) · slices pieces (split_large_items).
uint64_t most_items(const PlanLimits& limits) {
  return most_whole(limits) * limits.kv_heads +
         most_splits(limits) * (kPiecesPerSlice + 1) * limits.slices;
}

uint32_t ranges_of(uint32_t tokens) {
  return (tokens + kRangeTokens - 1) / kRangeTokens;
}

// Offsets of the arrays after the StepPlan, in bytes.
struct Layout {
  uint64_t seen, whole, items, splits, share_begin, bytes;

  explicit Layout(const PlanLimits& limits) {
    bytes = sizeof(StepPlan);
    seen = take(limits.max_rows, sizeof(Visible));
    whole = take(most_whole(limits), sizeof(WorkItem));
    items = take(most_items(limits), sizeof(WorkItem));
    splits = take(most_splits(limits), sizeof(SplitItem));
    share_begin = take(uint64_t{limits.slices} + 1, sizeof(uint32_t));
  }

 private:
  uint64_t take(uint64_t count, uint64_t size) {
    const uint64_t at = bytes;
    bytes = round_up(bytes + count * size, 64);
    return at;
  }
};

class PlanMaker {
 public:
  PlanMaker(const PlanLimits& limits, StepPlan& plan) : limits_(limits), plan_(plan) {}

  void make() {
    const uint32_t rows = rows_per_item(limits_);
    for (const uint32_t index : plan_.sequences) {
      const BatchSequence& sequence = plan_.batch->sequences[index];
      plan_.rows += sequence.rows;
      see(sequence);
      const uint32_t end = sequence.first_row + sequence.rows;
      for (uint32_t row = sequence.first_row; row < end; row += rows) {
        add_rows(sequence, plan_.group->tables[index].blocks.data(), row,
                 std::min(row + rows, end));
      }
    }
    split_large_items();
    share_out();
  }

 private:
  void see(const BatchSequence& sequence);
  void add_rows(const BatchSequence& sequence, const BlockId* blocks, uint32_t first_row,
                uint32_t last_row);
  uint64_t cost(const WorkItem& item) const;
  void split_large_items();
  void add_heads(const WorkItem& item);
  void split(const WorkItem& item, uint32_t pieces);
  void share_out();
  void join_heads();

  const PlanLimits& limits_;
  StepPlan& plan_;
};

// What each row sees, counted along the path that leads to it: entry 0 … of the cache, then the
// rows of the step that it follows, then itself.
void PlanMaker::see(const BatchSequence& sequence) {
  if (sequence.rows == 0) return;
  const BatchView& batch = *plan_.batch;
  const uint32_t before = plan_.group->slots[sequence.first_row];
  for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
    uint32_t own = before + (row - sequence.first_row);
    if (!batch.tree_parents.empty()) {
      const int32_t parent = batch.tree_parents[row];
      own = parent < 0 ? before : plan_.seen[parent].own + 1;
    }
    const uint32_t behind = batch.sees_to.empty() ? 0 : batch.sees_to[row] - row;
    const uint32_t window = limits_.window_tokens;
    const uint32_t low = limits_.chunks ? first_of_chunk(own, window) : first_visible(own, window);
    plan_.seen[row] = {.low = low, .high = own + behind + 1, .own = own};
  }
}

void PlanMaker::add_rows(const BatchSequence& sequence, const BlockId* blocks, uint32_t first_row,
                         uint32_t last_row) {
  uint32_t end = 0;
  for (uint32_t row = first_row; row < last_row; ++row) end = std::max(end, plan_.seen[row].high);
  const bool tree = !plan_.batch->tree_parents.empty();
  plan_.whole[plan_.whole_count++] = {
      .blocks = blocks,
      .kv_head = 0,
      .kv_heads = limits_.kv_heads,
      .first_row = first_row,
      .last_row = last_row,
      .first_range = 0,
      .last_range = (end - 1) / kRangeTokens + 1,
      .end = end,
      .path_from = tree ? plan_.group->slots[sequence.first_row] : kNoPath,
      .partial = kWhole};
}

// Of one head, in units of one query times one tile. An item's last row sees the most; the others
// nearly so.
uint64_t PlanMaker::cost(const WorkItem& item) const {
  const uint64_t end = std::min<uint64_t>(item.end, uint64_t{item.last_range} * kRangeTokens);
  const uint64_t begin = std::max<uint64_t>(uint64_t{item.first_range} * kRangeTokens,
                                            plan_.seen[item.last_row - 1].low);
  const uint64_t tiles = begin < end ? (end - begin + kTileTokens - 1) / kTileTokens : 0;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
  return 1 + tiles * (kTileQueries + queries);
}

// One item a head; heads that alone hold much of a slice's share (a long sequence with few of them)
// are cut at range boundaries, as far as there is room for the results.
void PlanMaker::split_large_items() {
  uint64_t total = 0;
  const std::span<const WorkItem> whole(plan_.whole, plan_.whole_count);
  for (const WorkItem& item : whole) total += item.kv_heads * cost(item);
  const uint64_t most = total / (kPiecesPerSlice * limits_.slices) + 1;
  for (const WorkItem& item : whole) {
    const uint64_t heads = item.kv_heads;
    uint64_t pieces = cost(item) / most + 1;
    // Where a sequence is nearly alone, its pieces should come out even.
    if (heads < most_splits(limits_) / 2 && heads % limits_.slices != 0 &&
        whole.size() < limits_.slices) {
      const uint64_t step = limits_.slices / std::gcd(heads, uint64_t{limits_.slices});
      pieces = (pieces + step - 1) / step * step;
    }
    pieces = std::min<uint64_t>(pieces, item.last_range);
    const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
    const bool room =
        plan_.partial_queries + heads * queries * item.last_range <= limits_.partial_queries &&
        plan_.split_count + heads <= most_splits(limits_);
    if (limits_.slices > 1 && pieces > 1 && room) {
      split(item, static_cast<uint32_t>(pieces));
    } else {
      add_heads(item);
    }
  }
}

void PlanMaker::add_heads(const WorkItem& item) {
  for (uint32_t head = 0; head < item.kv_heads; ++head) {
    WorkItem one = item;
    one.kv_head = head;
    one.kv_heads = 1;
    if (item.partial != kWhole) one.partial += head * item.partial_stride;
    plan_.items[plan_.item_count++] = one;
  }
}

void PlanMaker::split(const WorkItem& item, uint32_t pieces) {
  const uint32_t ranges = item.last_range;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * limits_.largest_group;
  for (uint32_t head = 0; head < item.kv_heads; ++head) {
    plan_.splits[plan_.split_count++] = {
        .kv_head = head,
        .first_row = item.first_row,
        .last_row = item.last_row,
        .ranges = ranges,
        .partial = plan_.partial_queries + head * queries * ranges};
  }
  for (uint32_t i = 0; i < pieces; ++i) {
    WorkItem piece = item;
    piece.first_range = static_cast<uint32_t>(uint64_t{i} * ranges / pieces);
    piece.last_range = static_cast<uint32_t>(uint64_t{i + 1} * ranges / pieces);
    piece.partial = plan_.partial_queries;
    piece.partial_stride = queries * ranges;
    add_heads(piece);
  }
  plan_.partial_queries += item.kv_heads * queries * ranges;
}

// Neighbouring items stay together: they read the same blocks.
void PlanMaker::share_out() {
  uint64_t total = 0;
  for (uint32_t i = 0; i < plan_.item_count; ++i) total += cost(plan_.items[i]);
  uint64_t done = 0;
  uint32_t share = 0;
  for (uint32_t i = 0; i < plan_.item_count; ++i) {
    const uint64_t mine = cost(plan_.items[i]);
    // An item belongs to the share in which its middle lies.
    while (share < limits_.slices && (done + mine / 2) * limits_.slices >= total * share) {
      plan_.share_begin[share++] = i;
    }
    done += mine;
  }
  while (share <= limits_.slices) plan_.share_begin[share++] = plan_.item_count;
  join_heads();
}

// Neighbouring heads of a share become one item: in a block they lie side by side.
void PlanMaker::join_heads() {
  const auto follows = [this](const WorkItem& last, const WorkItem& next) {
    const uint64_t queries = uint64_t{last.last_row - last.first_row} * limits_.largest_group;
    return next.first_row == last.first_row && next.first_range == last.first_range &&
           next.kv_head == last.kv_head + last.kv_heads &&
           (last.kv_heads + 1) * queries <= max_queries(limits_.latent);
  };
  uint32_t kept = 0;
  for (uint32_t share = 0; share < limits_.slices; ++share) {
    const uint32_t begin = plan_.share_begin[share];
    plan_.share_begin[share] = kept;
    for (uint32_t i = begin; i < plan_.share_begin[share + 1]; ++i) {
      WorkItem* items = plan_.items;
      if (kept > plan_.share_begin[share] && follows(items[kept - 1], items[i])) {
        ++items[kept - 1].kv_heads;
      } else {
        items[kept++] = items[i];
      }
    }
  }
  plan_.share_begin[limits_.slices] = kept;
  plan_.item_count = kept;
}

}  // namespace

uint32_t rows_per_item(const PlanLimits& limits) {
  return std::max(1u, max_queries(limits.latent) / std::max(1u, limits.largest_group));
}

uint64_t useful_partials(const PlanLimits& limits) {
  if (limits.slices <= 1) return 0;
  // Items of prompts are many; only those of a few rows are worth splitting.
  const uint64_t queries = std::max<uint64_t>(limits.largest_group, 16);
  const uint64_t items =
      std::min(most_splits(limits), uint64_t{limits.max_sequences} * limits.kv_heads);
  const uint64_t enough = limits.latent ? 1 << 14 : 1 << 16;
  return std::min(items * ranges_of(limits.context_tokens) * queries, enough);
}

uint64_t plan_bytes(const PlanLimits& limits) {
  return Layout(limits).bytes;
}

const StepPlan& make_plan(const PlanLimits& limits, const AttentionPlan& call) {
  const Layout layout(limits);
  auto* memory = static_cast<std::byte*>(call.plan);
  auto* plan = new (memory) StepPlan;
  plan->batch = call.batch;
  plan->group = &call.batch->groups[call.group];
  plan->sequences = call.sequences;
  plan->stores_first = call.batch->rows != 1;
  plan->slices = limits.slices;
  plan->seen = reinterpret_cast<Visible*>(memory + layout.seen);
  plan->whole = reinterpret_cast<WorkItem*>(memory + layout.whole);
  plan->items = reinterpret_cast<WorkItem*>(memory + layout.items);
  plan->splits = reinterpret_cast<SplitItem*>(memory + layout.splits);
  plan->share_begin = reinterpret_cast<uint32_t*>(memory + layout.share_begin);
  PlanMaker(limits, *plan).make();
  return *plan;
}

}  // namespace tenon::attention_cpu
