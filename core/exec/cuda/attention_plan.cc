#include "core/exec/cuda/attention_plan.h"

#include <algorithm>

namespace tenon::cuda {
namespace {

// From this many items on, four warps share what they read of K and V.
constexpr uint32_t kManyItems = 64;

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
  uint32_t most_items = 0;
  uint32_t longest = 1;
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const std::span<const BlockId> table = own.tables[i].blocks;
    plan.sequences.push_back(
        {sequence.first_row, sequence.rows, static_cast<uint32_t>(plan.tables.size())});
    plan.tables.insert(plan.tables.end(), table.begin(), table.end());
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      plan.row_sequence[row] = i;
      plan.blocks[row] = static_cast<uint32_t>(table[plan.slots[row] / block_tokens]);
      plan.offsets[row] = plan.slots[row] % block_tokens;
      longest = std::max(longest, plan.slots[row] + 1);
    }
    most_items = std::max(most_items, sequence.rows * per_row);
  }
  // The warps of latent attention share a tile already.
  plan.warps = most_items >= kManyItems && !group.v_inside_k() ? 4 : 1;
  plan.splits = attention_splits(longest);
  const uint32_t tile_items = kTileItems * static_cast<uint32_t>(plan.warps);
  for (uint32_t i = 0; i < batch.sequences.size(); ++i) {
    for (uint32_t item = 0; item < batch.sequences[i].rows * per_row; item += tile_items) {
      plan.tiles.push_back({i, item});
    }
  }
  return plan;
}

}  // namespace tenon::cuda
