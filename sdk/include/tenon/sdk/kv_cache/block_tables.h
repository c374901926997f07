// Tables of blocks: what a sequence holds in each KV group, in the cache and in the swap pool, and
// what managers do to one table: copy before a write, leave a window, move out and in.
#pragma once

#include <tenon/sdk/kv_cache/block_pool.h>
#include <tenon/sdk/kv_cache/bookkeeping.h>
#include <tenon/sdk/kv_cache/sink_window.h>
#include <tenon/sdk/kv_cache/state_slots.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tenon::sdk {

struct BlockTable {
  // Block i holds the positions [i·block_tokens, (i+1)·block_tokens), whatever has been evicted.
  std::vector<BlockId> blocks;
  uint32_t left_behind = 0;  // leading entries that a window has passed: kNoBlock, but for sinks
  std::vector<BlockId> swapped;  // in the pool: of the `blocks` those that were held …
  uint32_t swapped_behind = 0;   // … when so many had been left behind
  // What `table` shows where entries were evicted: `blocks` without the gap. Two, as a step in
  // flight may still be read from the other one.
  std::array<std::vector<BlockId>, 2> views;
  size_t shown = 0;
  uint64_t shown_step = 0;
};

struct BlockSequence : KvProgress {
  SeqId id = kNoSeq;
  uint32_t slot = 0;  // a small number of its own while it lives, for arrays next to this one
  std::vector<BlockTable> tables;  // [groups], empty for recurrent ones
  std::vector<StateTable> states;  // of recurrent groups
  uint32_t swapped_tokens = 0;     // in the pool; 0 = nothing is
  uint64_t swap_step = 0;          // the latest whose moves touch the pool
};

// One KV group of a manager: its pools and the moves that its tables need.
class BlockGroup {
 public:
  BlockGroup(GroupId id, const KvGroup& shape, const KvGroupGeometry& geometry, EvictionOrder order,
             const SinkWindow& kept, MoveQueue& moves, KvCounters& counters)
      : id_(id),
        block_tokens_(geometry.block_tokens),
        window_tokens_(shape.window_tokens),
        kept_(kept),
        moves_(&moves),
        counters_(&counters) {
    pool.reset(geometry.blocks, order);
    swap.reset(geometry.swap_blocks);
  }

  BlockPool pool;
  BlockPool swap;

  GroupId id() const { return id_; }
  uint32_t block_tokens() const { return block_tokens_; }
  uint32_t window_tokens() const { return window_tokens_; }
  bool evicts() const { return kept_.evicts(); }
  uint32_t blocks_for(uint32_t tokens) const {
    return tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0);
  }
  // Leading blocks that no row from position `computed` on can see, but for sinks among them.
  uint32_t passed(uint32_t computed) const {
    if (!kept_.evicts()) return first_visible(computed, window_tokens_) / block_tokens_;
    const uint32_t evicted = kept_.evicted(computed);
    return evicted == 0 ? 0 : (kept_.sink_tokens + evicted) / block_tokens_;
  }
  // Of so many leading blocks, those that are not held.
  uint32_t gone(uint32_t left_behind) const { return left_behind - sinks(left_behind); }
  // A grant that begins at `from` ends before this position: there other entries are seen.
  uint32_t next_eviction(uint32_t from) const { return kept_.next(from); }

  // Calls `visit` with the index of each block that the table holds.
  template <typename Visit>
  void each_held(const BlockTable& table, Visit visit) const {
    for (uint32_t i = 0; i < sinks(table.left_behind); ++i) visit(i);
    for (uint32_t i = table.left_behind; i < table.blocks.size(); ++i) visit(i);
  }
  bool holds(const BlockTable& table, size_t index) const {
    return index >= table.left_behind || index < sinks(table.left_behind);
  }
  // The table as the rows from `from` on see it, which are computed in `step`.
  KvTableView show(BlockTable& table, uint32_t from, uint64_t step) const;
  // So that `show` does not allocate, for sequences of up to `limit` tokens.
  void make_room(BlockTable& table, uint32_t limit) const;

  // Whether the next token would be written into a block that another sequence reads.
  bool writes_shared(const BlockTable& table, uint32_t computed) const {
    if (computed % block_tokens_ == 0) return false;
    const uint32_t index = computed / block_tokens_;
    return index < table.blocks.size() && pool.shared(table.blocks[index]);
  }
  // Replaces the block that holds the last of `tokens` by `copy`, its own.
  void copy_tail(BlockTable& table, uint32_t tokens, BlockId copy, uint64_t last_step) {
    copy_block(table, tokens / block_tokens_, tokens, copy, last_step);
  }
  // The same of block `index`, one of those that hold `tokens`.
  void copy_block(BlockTable& table, uint32_t index, uint32_t tokens, BlockId copy,
                  uint64_t last_step);
  // Of so many leading blocks those that no two sequences share.
  uint32_t unshared(uint32_t blocks) const { return kept_.rewritten ? sinks(blocks) : 0; }
  bool rewrites() const { return kept_.rewritten; }
  void copy_into(BlockId from, BlockId to, uint32_t tokens);

  // Counts the slots of `tokens` in all blocks from position `from` on that are the table's alone.
  void fill(const BlockTable& table, uint32_t from, uint32_t tokens);
  void shrink(BlockTable& table, uint32_t tokens, uint64_t last_step);
  void leave_window(BlockTable& table, uint32_t computed, uint64_t last_step);

  // Copies what holds the first `computed` tokens to the pool, which has room.
  void swap_out(BlockTable& table, uint32_t computed);
  uint32_t blocks_to_swap(const BlockTable& table, uint32_t computed) const {
    return blocks_for(computed) - gone(table.left_behind);
  }
  // Copies the blocks from entry `first` on back into those that the table has there now.
  void swap_in(const BlockTable& table, uint32_t first, uint32_t tokens);
  void drop_swapped(BlockTable& table, uint64_t last_step);

 private:
  uint32_t tokens_in(uint32_t entry, uint32_t tokens) const;
  // Of so many leading blocks, those that stay.
  uint32_t sinks(uint32_t left_behind) const {
    return std::min(kept_.sink_tokens / block_tokens_, left_behind);
  }

  GroupId id_;
  uint32_t block_tokens_;
  uint32_t window_tokens_;
  SinkWindow kept_;
  MoveQueue* moves_;
  KvCounters* counters_;
};

}  // namespace tenon::sdk
