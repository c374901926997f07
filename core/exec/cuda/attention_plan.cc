#include "core/exec/cuda/attention_plan.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

// From this many items on, four warps share what they read of K and V.
constexpr uint32_t kManyItems = 64;

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

void add_tiles(uint32_t sequence, uint32_t items, uint32_t tile_items, AttentionPlanArrays& plan) {
  for (uint32_t item = 0; item < items; item += tile_items) {
    plan.tiles.push_back({sequence, item});
  }
}

}  // namespace

AttentionPlanArrays plan_attention(const BatchView& batch, GroupId id, const KvGroup& group,
                                   uint32_t block_tokens, uint32_t heads) {
  AttentionPlanArrays plan;
  const BatchGroup& own = batch.groups[id];
  const uint32_t per_row = heads / group.kv_heads;
  plan.slots.assign(own.slots.begin(), own.slots.end());
  plan.row_sequence.resize(batch.rows);
  plan.blocks.resize(batch.rows);
  plan.offsets.resize(batch.rows);
  std::vector<uint32_t> chains, trees;
  uint32_t most_items = 0;
  uint32_t longest = 1;
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const std::span<const BlockId> table = own.tables[i].blocks;
    plan.sequences.push_back(
        {sequence.first_row, sequence.rows, static_cast<uint32_t>(plan.tables.size())});
    plan.tables.insert(plan.tables.end(), table.begin(), table.end());
    const bool tree = is_tree(batch, sequence);
    (tree ? trees : chains).push_back(i);
    if (tree) plan_tree(batch, sequence, plan);
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      plan.row_sequence[row] = i;
      plan.blocks[row] = static_cast<uint32_t>(table[own.slots[row] / block_tokens]);
      plan.offsets[row] = own.slots[row] % block_tokens;
      longest = std::max(longest, plan.slots[row] + 1);
    }
    if (!tree) most_items = std::max(most_items, sequence.rows * per_row);
  }
  // The warps of latent attention share a tile already.
  plan.warps = most_items >= kManyItems && !group.v_inside_k() ? 4 : 1;
  plan.splits = attention_splits(longest);
  const uint32_t tile_items = kTileItems * static_cast<uint32_t>(plan.warps);
  for (const uint32_t i : chains) {
    add_tiles(i, batch.sequences[i].rows * per_row, tile_items, plan);
  }
  const size_t of_chains = plan.tiles.size();
  for (const uint32_t i : trees) {
    add_tiles(i, batch.sequences[i].rows * per_row, kTileItems, plan);
  }
  plan.tree_tiles = static_cast<uint32_t>(plan.tiles.size() - of_chains);
  return plan;
}

}  // namespace tenon::cuda
