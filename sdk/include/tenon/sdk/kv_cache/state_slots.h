// Slots of recurrent groups: which one has a sequence's state, and which ones steps write.
//
// A step starts from one slot, which nobody writes any more, and writes a slot of its own for every
// number of tokens after which it may end. So rolling back is choosing another slot, forks read the
// same slot without a copy, and what a step in flight writes is where the next step starts.
//
//   slots    [after 9]   [after 12]   [after 13] [after 14]
//             final        in flight     the latest grant: one known token and one draft
//
// Before the first place where it may end, a grant can have slots on its way: a manager that
// finds prefixes keeps the states after some of the known tokens (prefix_manager.h).
#pragma once

#include <tenon/sdk/kv_cache/block_pool.h>
#include <tenon/sdk/kv_cache/bookkeeping.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::sdk {

struct StateSlot {
  BlockId block = kNoBlock;  // kNoBlock: after no tokens
  uint32_t end = 0;          // number of tokens that the state follows
  uint64_t step = 0;         // that writes it
};

struct StateTable {
  // Room for the drafts that are usual, so that steps do not allocate.
  StateTable() {
    slots.reserve(kUsualSlots);
    for (View& view : views) {
      view.blocks.reserve(kUsualSlots);
      view.ends.reserve(kUsualSlots);
    }
    views[0].blocks.push_back(kNoBlock);
    views[0].ends.push_back(0);
  }

  struct View {
    std::vector<BlockId> blocks;
    std::vector<uint32_t> ends;
  };
  // In rising order: the state after what is computed, then what steps not yet resolved write.
  std::vector<StateSlot> slots = {{}};
  size_t start = 0;  // of `slots`: where the latest grant starts
  // Of `slots`: the first after which the latest grant may end; all up to it will come true. Where
  // nothing is granted it is where the grant would start.
  size_t first_end = 0;
  // What `table` shows of the latest grant. Two, as a step in flight may still be read from the
  // other one.
  std::array<View, 2> views;
  size_t shown = 0;
  BlockId swapped = kNoBlock;  // the state in the pool

  static constexpr size_t kUsualSlots = 16;

  const StateSlot& final() const { return slots.front(); }
};

// One recurrent KV group of a manager: its pools and the moves that its tables need.
class StateGroup {
 public:
  StateGroup(GroupId id, const KvGroupGeometry& geometry, EvictionOrder order, MoveQueue& moves,
             KvCounters& counters)
      : id_(id), moves_(&moves), counters_(&counters) {
    pool.reset(geometry.blocks, order);
    swap.reset(geometry.swap_blocks);
  }

  BlockPool pool;
  BlockPool swap;

  GroupId id() const { return id_; }

  // The first place in (from, end] that a step may end at: after what is known, or where the grant
  // ends before that. After it, it may end after each draft.
  static uint32_t first_end(uint32_t from, uint32_t end, uint32_t known) {
    return std::max(std::min(known, end), from + 1);
  }
  // How many such places there are.
  static uint32_t ends(uint32_t from, uint32_t end, uint32_t known) {
    return end > from ? 1 + end - first_end(from, end, known) : 0;
  }
  // The most tokens after `from` that so many slots are enough for.
  static uint32_t most(uint32_t from, uint32_t known, uint32_t slots) {
    return slots == 0 || known <= from ? slots : known - from + slots - 1;
  }

  // Whether a grant can start after `from`: what is in flight ends there for certain.
  static bool can_start(const StateTable& table, uint32_t from);
  // Slots that the latest grant has already, where it is asked for again.
  static uint32_t at_hand(const StateTable& table, uint32_t from) {
    const bool again = table.slots[table.start].end == from;
    return again ? static_cast<uint32_t>(table.slots.size() - table.start - 1) : 0;
  }
  // Room for a grant after `from` of so many slots, so that `grow` does not allocate.
  static void make_room(StateTable& table, uint32_t from, size_t slots);
  // `on_the_way`: further numbers of tokens, rising, before the first end. The pool has enough
  // free slots for all.
  void grow(StateTable& table, uint32_t from, uint32_t end, uint32_t known,
            std::span<const uint32_t> on_the_way, uint64_t step);
  // The latest grant ends after `end` tokens now.
  void trim(StateTable& table, uint32_t end);

  // Whether some slot has the state after `computed` tokens, and with steps in flight, whether
  // they start from it.
  static bool has(const StateTable& table, uint32_t computed, uint32_t in_flight);
  void resolve(StateTable& table, uint32_t computed, uint32_t in_flight);
  void release(StateTable& table, uint64_t last_step);

  // The child starts where the parent's final state is: in the same slot, or in a copy of it.
  void share(StateTable& child, const StateTable& parent, bool copy);
  // The empty table starts from a slot that has been found to have the state after `tokens`.
  void start_from(StateTable& table, BlockId found, uint32_t tokens, uint64_t step);

  void swap_out(StateTable& table);
  // Of the state after `tokens`; the table is empty.
  void swap_in(StateTable& table, uint32_t tokens, uint64_t step);
  void drop_swapped(StateTable& table, uint64_t last_step);

  // What is wrong with a sequence's table; null where nothing is.
  static const char* flaw(const StateTable& table, uint32_t computed, uint32_t granted);

 private:
  void drop(const StateSlot& slot, uint64_t last_step) {
    if (slot.block != kNoBlock) pool.drop(slot.block, last_step);
  }
  void drop_behind(StateTable& table, size_t last);
  static void show(StateTable& table, bool again);

  GroupId id_;
  MoveQueue* moves_;
  KvCounters* counters_;
};

}  // namespace tenon::sdk
