#include "core/exec/cuda/step/attention_plan.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

// Whether a row of the sequence follows another one than that in front of it.
bool is_tree(const BatchView& batch, const BatchSequence& sequence) {
  if (batch.tree_parents.empty()) return false;
  for (uint32_t row = sequence.first_row + 1; row < sequence.first_row + sequence.rows; ++row) {
    if (batch.tree_parents[row] + int64_t{1} != row) return true;
  }
  return false;
}

// Where rows stand on their paths, and which row each follows.
void plan_tree(const BatchView& batch, const BatchSequence& sequence, AttentionPlanArrays& plan) {
  plan.parents.resize(batch.rows, kNoTree);
  const uint32_t before = plan.slots[sequence.first_row];
  for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
    const int32_t parent = batch.tree_parents[row];
    plan.parents[row] = parent < 0 ? row : static_cast<uint32_t>(parent);
    plan.slots[row] = parent < 0 ? before : plan.slots[plan.parents[row]] + 1;
  }
}

// The ranges that a row sees.
uint32_t seen_ranges(uint32_t slot, uint32_t window) {
  return slot / kSplitEntries - first_visible(slot, window) / kSplitEntries + 1;
}

// Sequences by the tiles that they have, in the tiles' order.
struct Kinds {
  std::vector<uint32_t> few, wide, trees;
};

class Planner {
 public:
  Planner(const BatchView& batch, uint32_t per_row, uint32_t window, AttentionPlanArrays& plan)
      : batch_(batch), per_row_(per_row), window_(window), plan_(plan) {}

  void add_tiles(const std::vector<uint32_t>& sequences, uint32_t tile_items) {
    for (const uint32_t i : sequences) {
      for (uint32_t item = 0; item < batch_.sequences[i].rows * per_row_; item += tile_items) {
        plan_.tiles.push_back({i, item});
      }
    }
  }
  // Where results of rows' ranges lie, if there is room for them.
  void split(const Kinds& kinds, uint64_t most_ranges) {
    plan_.first_ranges.assign(batch_.rows, kWalked);
    uint32_t splits = 1;
    for (const auto* some : {&kinds.few, &kinds.trees}) {
      for (const uint32_t i : *some) splits = std::max(splits, split_sequence(i));
    }
    if (splits > 1 && plan_.ranges <= most_ranges) {
      plan_.splits = splits;
      return;
    }
    plan_.first_ranges.assign(batch_.rows, kWalked);
    plan_.split_rows.clear();
    plan_.ranges = 0;
  }

 private:
  // The ranges that rows of the sequence see together.
  uint32_t split_sequence(uint32_t i) {
    const BatchSequence& sequence = batch_.sequences[i];
    const uint32_t first = first_visible(plan_.slots[sequence.first_row], window_);
    uint32_t last = 0;
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      plan_.first_ranges[row] = static_cast<uint32_t>(plan_.ranges);
      plan_.split_rows.push_back(row);
      plan_.ranges += seen_ranges(plan_.slots[row], window_);
      last = std::max(last, plan_.slots[row]);
    }
    return last / kSplitEntries - first / kSplitEntries + 1;
  }

  const BatchView& batch_;
  uint32_t per_row_, window_;
  AttentionPlanArrays& plan_;
};

}  // namespace

void AttentionPlanArrays::describe(AttentionShape& shape) const {
  shape.rows = static_cast<uint32_t>(slots.size());
  shape.wide_tiles = wide_tiles;
  shape.tree_tiles = tree_tiles;
  shape.tiles = static_cast<uint32_t>(tiles.size()) - wide_tiles - tree_tiles;
  shape.split_rows = static_cast<uint32_t>(split_rows.size());
  shape.splits = splits;
}

AttentionPlanArrays plan_attention(const BatchView& batch, GroupId id, const KvGroup& group,
                                   uint32_t block_tokens, uint32_t heads,
                                   const AttentionWays& ways) {
  AttentionPlanArrays plan;
  const BatchGroup& own = batch.groups[id];
  const uint32_t per_row = heads / group.kv_heads;
  plan.slots.assign(own.slots.begin(), own.slots.end());
  plan.row_sequence.resize(batch.rows);
  plan.blocks.resize(batch.rows);
  plan.offsets.resize(batch.rows);
  Kinds kinds;
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const std::span<const BlockId> table = own.tables[i].blocks;
    plan.sequences.push_back(
        {sequence.first_row, sequence.rows, static_cast<uint32_t>(plan.tables.size())});
    plan.tables.insert(plan.tables.end(), table.begin(), table.end());
    const bool tree = is_tree(batch, sequence);
    if (tree) plan_tree(batch, sequence, plan);
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      plan.row_sequence[row] = i;
      plan.blocks[row] = static_cast<uint32_t>(table[own.slots[row] / block_tokens]);
      plan.offsets[row] = own.slots[row] % block_tokens;
    }
    // Latent attention has no kernel for wide tiles, and those of one row would be mostly empty.
    const bool wide =
        !group.v_inside_k() && sequence.rows > 1 && sequence.rows * per_row >= ways.wide_items;
    (tree ? kinds.trees : wide ? kinds.wide : kinds.few).push_back(i);
  }
  Planner planner(batch, per_row, group.window_tokens, plan);
  planner.add_tiles(kinds.few, kTileItems);
  const size_t few = plan.tiles.size();
  planner.add_tiles(kinds.wide, kWideItems);
  plan.wide_tiles = static_cast<uint32_t>(plan.tiles.size() - few);
  planner.add_tiles(kinds.trees, kTileItems);
  plan.tree_tiles = static_cast<uint32_t>(plan.tiles.size() - few) - plan.wide_tiles;
  planner.split(kinds, ways.most_ranges);
  return plan;
}

}  // namespace tenon::cuda
