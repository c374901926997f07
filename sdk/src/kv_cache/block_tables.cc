#include <tenon/sdk/kv_cache/block_tables.h>

#include <algorithm>

namespace tenon::sdk {

void BlockGroup::copy_block(BlockTable& table, uint32_t index, uint32_t tokens, BlockId copy,
                            uint64_t last_step) {
  BlockId& entry = table.blocks[index];
  copy_into(entry, copy, tokens_in(index, tokens));
  pool.drop(entry, last_step);
  entry = copy;
}

void BlockGroup::copy_into(BlockId from, BlockId to, uint32_t tokens) {
  moves_->push({id_, {{}, from, 0}, {{}, to, 0}, tokens});
  pool.set_filled(to, tokens);
  ++counters_->copied_blocks;
}

void BlockGroup::fill(const BlockTable& table, uint32_t from, uint32_t tokens) {
  for (uint32_t i = from / block_tokens_; i < table.blocks.size(); ++i) {
    if (table.blocks[i] == kNoBlock || pool.shared(table.blocks[i])) continue;
    pool.set_filled(table.blocks[i], tokens_in(i, tokens));
  }
}

void BlockGroup::shrink(BlockTable& table, uint32_t tokens, uint64_t last_step) {
  for (const uint32_t blocks = blocks_for(tokens); table.blocks.size() > blocks;) {
    if (table.blocks.back() != kNoBlock) pool.drop(table.blocks.back(), last_step);
    table.blocks.pop_back();
  }
  table.left_behind =
      std::min<uint32_t>(table.left_behind, static_cast<uint32_t>(table.blocks.size()));
}

void BlockGroup::leave_window(BlockTable& table, uint32_t computed, uint64_t last_step) {
  const uint32_t end =
      std::min<uint32_t>(passed(computed), static_cast<uint32_t>(table.blocks.size()));
  for (uint32_t i = end; i > std::max(table.left_behind, sinks(end)); --i) {
    pool.drop(table.blocks[i - 1], last_step);
    table.blocks[i - 1] = kNoBlock;
  }
  table.left_behind = std::max(table.left_behind, end);
}

void BlockGroup::swap_out(BlockTable& table, uint32_t computed) {
  table.swapped_behind = table.left_behind;
  each_held(table, [&](uint32_t i) {
    const uint32_t tokens = tokens_in(i, computed);
    if (tokens == 0) return;
    const BlockId to = swap.take();
    swap.set_filled(to, tokens);
    table.swapped.push_back(to);
    moves_->push({id_, {{}, table.blocks[i], 0}, {{}, to, 0, KvTier::swap}, tokens});
    ++counters_->swapped_out_blocks;
  });
}

void BlockGroup::swap_in(const BlockTable& table, uint32_t first, uint32_t tokens) {
  const uint32_t sinks_there = sinks(table.swapped_behind), gone_there = gone(table.swapped_behind);
  each_held(table, [&](uint32_t i) {
    const bool there = i < sinks_there || i >= table.swapped_behind;
    if (i < first || i >= blocks_for(tokens) || !there) return;
    const BlockId from = table.swapped[i < sinks_there ? i : i - gone_there];
    moves_->push(
        {id_, {{}, from, 0, KvTier::swap}, {{}, table.blocks[i], 0}, tokens_in(i, tokens)});
    pool.set_filled(table.blocks[i], tokens_in(i, tokens));
    ++counters_->swapped_in_blocks;
  });
}

void BlockGroup::drop_swapped(BlockTable& table, uint64_t last_step) {
  for (BlockId block : table.swapped) swap.drop(block, last_step);
  table.swapped.clear();
  table.swapped_behind = 0;
}

KvTableView BlockGroup::show(BlockTable& table, uint32_t from, uint64_t step) const {
  const uint32_t passed_there = passed(from);
  if (!kept_.evicts() || passed_there == 0) return {.blocks = table.blocks, .ends = {}};
  if (table.shown_step != step) table.shown = 1 - table.shown;
  table.shown_step = step;
  std::vector<BlockId>& view = table.views[table.shown];
  const auto begin = table.blocks.begin();
  const auto kept = static_cast<ptrdiff_t>(sinks(passed_there));
  const auto behind = static_cast<ptrdiff_t>(std::min<size_t>(passed_there, table.blocks.size()));
  view.assign(begin, begin + std::min(kept, behind));
  view.insert(view.end(), begin + behind, table.blocks.end());
  return {.blocks = view, .ends = {}, .evicted = kept_.evicted(from)};
}

void BlockGroup::make_room(BlockTable& table, uint32_t limit) const {
  table.blocks.reserve(blocks_for(limit));
  if (!kept_.evicts() || limit <= kept_.first()) return;
  for (std::vector<BlockId>& view : table.views) view.reserve(blocks_for(kept_.most_tokens()));
}

uint32_t BlockGroup::tokens_in(uint32_t entry, uint32_t tokens) const {
  const uint64_t first = uint64_t{entry} * block_tokens_;
  return static_cast<uint32_t>(
      std::min<uint64_t>(tokens > first ? tokens - first : 0, block_tokens_));
}

}  // namespace tenon::sdk
