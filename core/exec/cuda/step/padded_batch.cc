#include "core/exec/cuda/step/padded_batch.h"

#include <algorithm>
#include <bit>

namespace tenon::cuda {

uint32_t padded_size(uint32_t rows, uint32_t most) {
  return std::min(std::bit_ceil(rows), most);
}

// The smallest step of size 2ⁿ has 2ⁿ⁻¹ + 1 rows; above the last power of two, one row more.
uint32_t most_padding(uint32_t most) {
  if (most < 4) return 0;
  const uint32_t power = std::bit_floor(most);
  return std::max(power / 2 - 1, most > power ? most - power - 1 : 0);
}

bool PaddedBatch::fits(const BatchView& batch, uint32_t most) {
  const bool single = batch.rows == batch.sequences.size() && batch.rows > 0;
  return single && batch.rows <= most && batch.hidden_rows.empty() &&
         std::ranges::all_of(batch.sequences, [](const BatchSequence& s) { return s.rows == 1; });
}

void PaddedBatch::pad_group(const BatchGroup& from, const KvGroupGeometry& geometry,
                            uint32_t padding, Group& to) {
  to.slots.assign(from.slots.begin(), from.slots.end());
  to.kv_tokens.assign(from.kv_tokens.begin(), from.kv_tokens.end());
  to.tables.assign(from.tables.begin(), from.tables.end());
  if (from.slots.empty()) {  // of states: padding begins with zeros, and leaves nothing
    static constexpr BlockId kNowhere[] = {kNoBlock};
    static constexpr uint32_t kNoTokens[] = {0};
    KvTableView table;
    table.blocks = kNowhere;
    table.ends = kNoTokens;
    to.tables.resize(to.tables.size() + padding, table);
    return;
  }
  to.blocks.clear();
  for (uint32_t i = 0; i < padding_blocks(padding, geometry.block_tokens); ++i) {
    to.blocks.push_back(static_cast<BlockId>(geometry.blocks + i));
  }
  // Rows of one block see what earlier rows of padding stored in this very step.
  for (uint32_t i = 0; i < padding; ++i) {
    KvTableView table;
    table.blocks = std::span(to.blocks).subspan(i / geometry.block_tokens, 1);
    to.tables.push_back(table);
    to.slots.push_back(i % geometry.block_tokens);
    to.kv_tokens.push_back(i % geometry.block_tokens + 1);
  }
}

const BatchView& PaddedBatch::pad(const BatchView& batch, std::span<const KvGroupGeometry> groups,
                                  uint32_t rows) {
  const uint32_t padding = rows - batch.rows;
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  tokens_.resize(rows, 0);
  positions_.assign(batch.positions.begin(), batch.positions.end());
  positions_.resize(rows, 0);
  sequences_.assign(batch.sequences.begin(), batch.sequences.end());
  for (uint32_t row = batch.rows; row < rows; ++row) {
    sequences_.push_back({.first_row = row, .rows = 1});
  }
  logits_rows_.assign(batch.logits_rows.begin(), batch.logits_rows.end());
  if (!logits_rows_.empty()) logits_rows_.resize(rows, 0);
  groups_.resize(groups.size());
  views_.resize(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    pad_group(batch.groups[i], groups[i], padding, groups_[i]);
    views_[i] = {groups_[i].slots, groups_[i].kv_tokens, groups_[i].tables};
  }
  batch_ = batch;
  batch_.rows = batch_.padded_rows = batch_.padded_sequences = rows;
  batch_.tokens = tokens_;
  batch_.positions = positions_;
  batch_.sequences = sequences_;
  batch_.groups = views_;
  batch_.logits_rows = logits_rows_;
  batch_.tree_parents = {};  // a row alone is no tree
  return batch_;
}

}  // namespace tenon::cuda
