// Blocks 0 … n-1 with reference counts, and what becomes of those that nobody holds.
//
//   free    hold nothing worth keeping; handed out first, the latest freed one first
//   parked  their last holder was planned for a step that is still running; wait for `step_done`
//   cached  marked with `keep`: their content may be asked for again; handed out last, in the order
//           of an EvictionOrder
//
// Nothing but `reset` allocates. Counts cost O(1); what is cached enters and leaves a heap in
// O(log blocks).
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon::sdk {

// Which cached block goes first. A sequence gives its blocks back from its tail, and in each order
// the tail of a sequence goes before its head.
enum class EvictionOrder : uint8_t {
  lru = 0,   // the one given back longest ago
  lfu = 1,   // the one found least often; among equals as lru
  fifo = 2,  // that of the sequence which cached first; however often it was found
};

class BlockPool {
 public:
  void reset(uint32_t blocks, EvictionOrder order = EvictionOrder::lru);

  uint32_t size() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t cached_count() const { return static_cast<uint32_t>(heap_.size()); }
  uint32_t parked_count() const { return parked_count_; }
  uint32_t available() const { return free_count() + cached_count(); }
  uint32_t references(BlockId block) const { return uses_[index(block)].references; }
  bool shared(BlockId block) const { return references(block) > 1; }
  bool kept(BlockId block) const { return at(block).kept; }
  // Counts among the available ones although its content is there.
  bool cached(BlockId block) const { return at(block).state == State::cached; }

  // Only while free_count() > 0. The block has one reference and holds nothing.
  BlockId take() {
    const BlockId block = free_.back();
    free_.pop_back();
    uses_[index(block)] = {1, 0};
    at(block) = {};
    at(block).state = State::used;
    return block;
  }
  // One more holder of a block whose content is there: used, parked or cached.
  void share(BlockId block) {
    if (uses_[index(block)].references++ > 0) return;
    Block& one = at(block);
    if (one.state == State::cached) leave_heap(block);
    if (one.state == State::parked) --parked_count_;  // its entry is skipped later
    one.state = State::used;
  }
  // As `share`, because someone looked for the content and found it.
  void find(BlockId block) {
    share(block);
    ++at(block).finds;
  }
  // `last_step` is the latest step that the holder was planned with.
  void drop(BlockId block, uint64_t last_step) {
    Block& one = at(block);
    one.last_step = std::max(one.last_step, last_step);
    if (--uses_[index(block)].references > 0) return;
    set_filled(block, 0);
    one.used_at = ++clock_;
    if (one.last_step <= done_step_) return free_or_cache(block);
    one.state = State::parked;
    ++parked_count_;
    parked_.push_back(block);
  }
  void step_done(uint64_t step_id);

  // The content of a block in use is worth keeping when its last holder goes. `owner` and `depth`
  // say whose it is and how far from the beginning, for `fifo`; owners rise with time.
  void keep(BlockId block, uint64_t owner, uint32_t depth) {
    Block& one = at(block);
    one.kept = true;
    one.owner = owner;
    one.depth = depth;
  }
  // Makes the next cached block free; there is one. Its content is lost.
  BlockId evict();
  // The content of a kept block is worth nothing any more: it is free once nobody holds it.
  void unkeep(BlockId block) {
    Block& one = at(block);
    one.kept = false;
    if (one.state != State::cached) return;
    leave_heap(block);
    free_or_cache(block);
  }
  // Whose content it is, as `keep` was told, and how often others have found it.
  uint64_t owner(BlockId block) const { return at(block).owner; }
  uint32_t finds(BlockId block) const { return at(block).finds; }
  // Someone read a block without holding it: it counts as found and given back just now.
  void touch(BlockId block);

  // How many slots of a block in use hold K/V; the pool keeps the sum.
  void set_filled(BlockId block, uint32_t tokens) {
    uint32_t& filled = uses_[index(block)].filled;
    filled_total_ = filled_total_ - filled + tokens;
    filled = tokens;
  }
  uint64_t filled_total() const { return filled_total_; }

  // Holds counts against `expected` references, one number a block, and against themselves.
  Status check(const std::vector<uint32_t>& expected) const;

 private:
  enum class State : uint8_t { free, used, parked, cached };
  // What every step touches, apart from the rest: blocks taken together lie together.
  struct Use {
    uint32_t references = 0;
    uint32_t filled = 0;
  };
  struct Block {
    uint32_t finds = 0;
    uint32_t depth = 0;
    uint32_t place = 0;  // in the heap
    State state = State::free;
    bool kept = false;
    uint64_t last_step = 0;
    uint64_t used_at = 0;  // when the last holder went
    uint64_t owner = 0;
  };

  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  Block& at(BlockId block) { return blocks_[index(block)]; }
  const Block& at(BlockId block) const { return blocks_[index(block)]; }
  static Status broken(BlockId block, const std::string& how) {
    return Status::error(StatusCode::internal, "block " + std::to_string(block) + " " + how);
  }

  // Nobody holds the block and no step reads it: here it becomes free, unless its content is kept.
  void free_or_cache(BlockId block) {
    Block& one = at(block);
    one.state = one.kept ? State::cached : State::free;
    if (!one.kept) return free_.push_back(block);
    one.place = static_cast<uint32_t>(heap_.size());
    heap_.push_back(block);
    rise(one.place);
  }

  std::pair<uint64_t, uint64_t> rank(BlockId block) const;
  bool before(BlockId a, BlockId b) const { return rank(a) < rank(b); }
  void put(size_t place, BlockId block) {
    heap_[place] = block;
    at(block).place = static_cast<uint32_t>(place);
  }
  void rise(size_t place);
  void sink(size_t place);
  void leave_heap(BlockId block);

  EvictionOrder order_ = EvictionOrder::lru;
  std::vector<Use> uses_;
  std::vector<Block> blocks_;
  std::vector<BlockId> free_;    // taken from the back
  std::vector<BlockId> heap_;    // the cached ones; the first is evicted next
  std::vector<BlockId> parked_;  // and some that have been taken up again
  uint32_t parked_count_ = 0;
  uint64_t filled_total_ = 0;
  uint64_t done_step_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace tenon::sdk
