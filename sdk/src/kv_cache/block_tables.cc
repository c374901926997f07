#include <tenon/sdk/kv_cache/block_tables.h>

#include <algorithm>

namespace tenon::sdk {

void BlockGroup::copy_tail(BlockTable& table, uint32_t tokens, BlockId copy, uint64_t last_step) {
  BlockId& entry = table.blocks[tokens / block_tokens_];
  copy_into(entry, copy, tokens % block_tokens_);
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
  for (uint32_t i = end; i > table.left_behind; --i) {
    pool.drop(table.blocks[i - 1], last_step);
    table.blocks[i - 1] = kNoBlock;
  }
  table.left_behind = std::max(table.left_behind, end);
}

void BlockGroup::swap_out(BlockTable& table, uint32_t computed) {
  table.swapped_behind = table.left_behind;
  for (uint32_t i = table.left_behind; i < blocks_for(computed); ++i) {
    const BlockId to = swap.take();
    swap.set_filled(to, tokens_in(i, computed));
    table.swapped.push_back(to);
    moves_->push(
        {id_, {{}, table.blocks[i], 0}, {{}, to, 0, KvTier::swap}, tokens_in(i, computed)});
    ++counters_->swapped_out_blocks;
  }
}

void BlockGroup::swap_in(const BlockTable& table, uint32_t first, uint32_t tokens) {
  for (uint32_t i = std::max(first, table.swapped_behind); i < blocks_for(tokens); ++i) {
    const BlockId from = table.swapped[i - table.swapped_behind];
    moves_->push(
        {id_, {{}, from, 0, KvTier::swap}, {{}, table.blocks[i], 0}, tokens_in(i, tokens)});
    pool.set_filled(table.blocks[i], tokens_in(i, tokens));
    ++counters_->swapped_in_blocks;
  }
}

void BlockGroup::drop_swapped(BlockTable& table, uint64_t last_step) {
  for (BlockId block : table.swapped) swap.drop(block, last_step);
  table.swapped.clear();
  table.swapped_behind = 0;
}

uint32_t BlockGroup::tokens_in(uint32_t entry, uint32_t tokens) const {
  const uint64_t first = uint64_t{entry} * block_tokens_;
  return static_cast<uint32_t>(
      std::min<uint64_t>(tokens > first ? tokens - first : 0, block_tokens_));
}

}  // namespace tenon::sdk
