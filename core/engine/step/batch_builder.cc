#include "core/engine/step/batch_builder.h"

#include <algorithm>

namespace tenon {

BatchBuilder::BatchBuilder(const EngineParts& parts, bool copies_tables, bool asks_tables)
    : shape_(*parts.shape),
      eviction_(parts.eviction),
      hidden_layers_(parts.hidden_layers),
      seen_layers_(hidden_layers_.size()),
      sees_whole_(parts.mask_token != kNoToken),
      copies_tables_(copies_tables),
      asks_tables_(asks_tables),
      groups_(parts.shape->group_count),
      group_views_(parts.shape->group_count) {
  const uint32_t rows = parts.limits.max_batch_tokens;
  const uint32_t sequences = parts.limits.max_sequences;
  tokens_.reserve(rows);
  positions_.reserve(size_t{rows} * shape_.position_axes);
  logits_rows_.reserve(rows);
  if (sees_whole_) sees_to_.reserve(rows);
  hidden_rows_.reserve(rows);
  const LayerId final_norm = shape_.layer_count;
  if (seen_layers_ == 0 || hidden_layers_.back() != final_norm) {
    hidden_layers_.push_back(final_norm);
  }
  sequences_.reserve(sequences);
  for (Group& group : groups_) {
    group.slots.reserve(rows);
    group.kv_tokens.reserve(sequences);
    group.tables.reserve(sequences);
  }
}

void BatchBuilder::clear() {
  tokens_.clear();
  positions_.clear();
  tree_parents_.clear();
  sees_to_.clear();
  logits_rows_.clear();
  hidden_rows_.clear();
  sequences_.clear();
  pools_ = false;
  for (Group& group : groups_) {
    group.slots.clear();
    group.kv_tokens.clear();
    group.tables.clear();
  }
}

Result<BatchView> BatchBuilder::build(uint64_t step_id, std::span<Share> shares,
                                      KVCacheManager& manager) {
  clear();
  const bool trees =
      std::any_of(shares.begin(), shares.end(), [](const Share& s) { return !s.parents.empty(); });
  for (Share& share : shares) {
    add_rows(share);
    if (trees) add_tree(share);
    TENON_RETURN_IF_ERROR(add_tables(share, manager));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (copies_tables_) copy_tables(groups_[g]);
    group_views_[g] = {groups_[g].slots, groups_[g].kv_tokens, groups_[g].tables};
  }
  BatchView batch;
  batch.step_id = step_id;
  batch.rows = batch.padded_rows = static_cast<uint32_t>(tokens_.size());
  batch.padded_sequences = static_cast<uint32_t>(sequences_.size());
  batch.tokens = tokens_;
  batch.positions = positions_;
  batch.tree_parents = tree_parents_;
  batch.sees_to = sees_to_;
  batch.sequences = sequences_;
  batch.groups = group_views_;
  batch.logits_rows = logits_rows_;
  batch.hidden_rows = hidden_rows_;
  if (!hidden_rows_.empty()) {
    batch.hidden_layers =
        std::span(hidden_layers_).first(pools_ ? hidden_layers_.size() : seen_layers_);
  }
  return batch;
}

void BatchBuilder::add_rows(Share& share) {
  const Sequence& sequence = *share.sequence;
  share.place = static_cast<uint32_t>(sequences_.size());
  share.first_row = static_cast<uint32_t>(tokens_.size());
  share.first_score = static_cast<uint32_t>(logits_rows_.size());
  share.first_hidden = static_cast<uint32_t>(hidden_rows_.size());
  share.score_rows = share.logits_rows = share.hidden_rows = 0;
  for (uint32_t i = 0; i < share.rows(); ++i) {
    const uint32_t position = share.base + i;
    const RowUse use = sequence.answer->use_of(position);
    if (use == RowUse::scored && share.score_rows == 0) share.score_from = position + 1;
    want(share, use);
    tokens_.push_back(position < sequence.tokens.size() ? sequence.tokens[position] : kNoToken);
    const bool in_tree = i >= share.tokens && !share.parents.empty();
    if (!in_tree) add_positions(position);
  }
  if (sees_whole_) sees_to_.resize(tokens_.size(), static_cast<uint32_t>(tokens_.size()) - 1);
  share.first_logits = share.first_score + share.score_rows;
  sequences_.push_back(
      {sequence.id, share.first_row, share.rows(), share.drafts, sequence.request->adapter});
}

void BatchBuilder::add_positions(uint32_t position) {
  for (uint32_t axis = 0; axis < shape_.position_axes; ++axis) positions_.push_back(position);
}

void BatchBuilder::want(Share& share, RowUse use) {
  const auto row = static_cast<uint32_t>(tokens_.size());
  const bool drawn = use == RowUse::drawn, pooled = use == RowUse::pooled;
  if (drawn || use == RowUse::scored) {
    logits_rows_.push_back(row);
    ++(drawn ? share.logits_rows : share.score_rows);
  }
  const bool seen = seen_layers_ > 0 && share.sequence->in_drafter;
  if (pooled || (seen && (drawn || share.sequence->shows_prompt))) {
    hidden_rows_.push_back(row);
    ++share.hidden_rows;
  }
  pools_ |= pooled;
}

// Which row each row of the share follows; the positions of drafts that form a tree rise with
// their depth.
void BatchBuilder::add_tree(const Share& share) {
  const auto first = static_cast<int32_t>(share.first_row);
  const auto last_known = first + static_cast<int32_t>(share.tokens) - 1;
  for (uint32_t i = 0; i < share.rows(); ++i) {
    const bool in_tree = i >= share.tokens && !share.parents.empty();
    if (!in_tree) {
      tree_parents_.push_back(i == 0 ? -1 : first + static_cast<int32_t>(i) - 1);
      continue;
    }
    const int32_t parent = share.parents[i - share.tokens];
    const int32_t row = parent < 0 ? last_known : last_known + 1 + parent;
    tree_parents_.push_back(row);
    add_positions(positions_[static_cast<size_t>(row) * shape_.position_axes] + 1);
  }
}

Status BatchBuilder::add_tables(const Share& share, KVCacheManager& manager) {
  const uint32_t end = share.base + share.rows();
  for (GroupId g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    KvTableView& table = group.tables.emplace_back();
    if (asks_tables_) TENON_RETURN_IF_ERROR(manager.table(share.sequence->id, g, table));
    if (shape_.groups[g].kind == KvKind::recurrent) continue;
    const bool stated = eviction_ != nullptr && share.base >= eviction_->first;
    if (table.evicted > (stated ? share.base : 0)) {
      return internal(
          "KV group " + std::to_string(g) + " has evicted " + std::to_string(table.evicted) +
          " entries of a sequence of " + std::to_string(share.base) + " – the manager " +
          (eviction_ == nullptr
               ? "does not say that it evicts"
               : "says that it evicts from " + std::to_string(eviction_->first) + " on"));
    }
    for (uint32_t entry = share.base; entry < end; ++entry) {
      group.slots.push_back(entry - table.evicted);
    }
    group.kv_tokens.push_back(end - table.evicted);
  }
  return {};
}

void BatchBuilder::copy_tables(Group& group) {
  group.blocks.clear();
  group.ends.clear();
  for (const KvTableView& table : group.tables) {
    group.blocks.insert(group.blocks.end(), table.blocks.begin(), table.blocks.end());
    group.ends.insert(group.ends.end(), table.ends.begin(), table.ends.end());
  }
  std::span<const BlockId> blocks = group.blocks;
  std::span<const uint32_t> ends = group.ends;
  for (KvTableView& table : group.tables) {
    const size_t block_count = table.blocks.size(), end_count = table.ends.size();
    table.blocks = blocks.first(block_count);
    table.ends = ends.first(end_count);
    blocks = blocks.subspan(block_count);
    ends = ends.subspan(end_count);
  }
}

void BatchBuilder::fill_in_tokens(std::span<const Share> shares) {
  for (const Share& share : shares) {
    for (uint32_t i = 0; i < share.rows(); ++i) {
      TokenId& token = tokens_[share.first_row + i];
      if (token == kNoToken) token = share.sequence->tokens[share.base + i];
    }
  }
}

}  // namespace tenon
