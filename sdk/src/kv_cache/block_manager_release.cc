// How a BlockManager keeps and gives back: resolve, release, swap; and how it is counted and
// checked.
#include <tenon/sdk/kv_cache/block_manager.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon::sdk {

// Brings kept slots together after `base`. Rising order: no source is overwritten before it was
// read.
void BlockManager::gather(const BlockSequence& sequence, uint32_t base,
                          std::span<const uint32_t> kept) {
  if (kept.empty() || kept.back() + 1 == kept.size()) return;
  moves_.make_room(kept.size() * groups_.size());
  for (uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    for (const BlockGroup& group : groups_) {
      const uint32_t size = group.block_tokens();
      const std::vector<BlockId>& blocks = sequence.tables[group.id()].blocks;
      const uint32_t from = base + kept[i], to = base + i;
      moves_.push({group.id(),
                   {{}, blocks[from / size], from % size},
                   {{}, blocks[to / size], to % size},
                   1});
    }
  }
}

Status BlockManager::trim_sequence(SeqId seq, uint32_t tokens) {
  BlockSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  if (Status status = sequence->check_trim(seq, tokens); !status.ok()) return status;
  sequence->granted = sequence->planned_from + tokens;
  for (BlockGroup& group : groups_) {
    group.shrink(sequence->tables[group.id()], sequence->granted, sequence->last_step);
  }
  for (StateGroup& group : states_) group.trim(state(*sequence, group), sequence->granted);
  trimmed(*sequence);
  return {};
}

// Whether every recurrent group has the state after what is kept.
Status BlockManager::check_states(const BlockSequence& sequence, const KvOutcome& outcome) const {
  const bool path = !outcome.kept.empty() && outcome.kept.back() + 1 != outcome.kept.size();
  if (path && !states_.empty()) {
    return Status::error(StatusCode::unsupported,
                         "sequence " + std::to_string(sequence.id) +
                             " keeps a path of a tree – recurrent state has slots for a chain of "
                             "drafts only");
  }
  for (const StateGroup& group : states_) {
    if (StateGroup::has(state(sequence, group), outcome.computed, outcome.in_flight)) continue;
    return wrong("sequence " + std::to_string(sequence.id) + " cannot stop behind token " +
                 std::to_string(outcome.computed) + " – no slot has the state there");
  }
  return {};
}

Status BlockManager::resolve_sequence(const KvOutcome& outcome) {
  BlockSequence* sequence = find(outcome.seq);
  if (sequence == nullptr) return unknown(outcome.seq);
  if (Status status = sequence->check_resolve(outcome); !status.ok()) return status;
  if (Status status = check_states(*sequence, outcome); !status.ok()) return status;
  const uint32_t computed = outcome.computed;
  gather(*sequence, outcome.base, outcome.kept);
  if (sequence->granted > 0 && sequence->swapped_tokens > 0) drop_swapped(*sequence);
  sequence->computed = computed;
  sequence->granted = computed + outcome.in_flight;
  if (outcome.in_flight == 0) sequence->planned_from = computed;
  for (BlockGroup& group : groups_) {
    BlockTable& table = sequence->tables[group.id()];
    group.shrink(table, sequence->granted, sequence->last_step);
    group.fill(table, outcome.base, computed);
  }
  if (!states_.empty()) passing_states(*sequence, outcome.tokens, outcome.in_flight > 0);
  for (StateGroup& group : states_) {
    group.resolve(state(*sequence, group), computed, outcome.in_flight);
  }
  resolved(*sequence, outcome.tokens);
  for (BlockGroup& group : groups_) {
    group.leave_window(sequence->tables[group.id()], computed, sequence->last_step);
  }
  return {};
}

void BlockManager::drop_blocks(BlockSequence& sequence) {
  for (BlockGroup& group : groups_) {
    group.shrink(sequence.tables[group.id()], 0, sequence.last_step);
  }
  for (StateGroup& group : states_) group.release(state(sequence, group), sequence.last_step);
  sequence.computed = sequence.granted = sequence.planned_from = 0;
}

void BlockManager::drop_swapped(BlockSequence& sequence) {
  for (BlockGroup& group : groups_) {
    group.drop_swapped(sequence.tables[group.id()], sequence.swap_step);
  }
  for (StateGroup& group : states_) {
    group.drop_swapped(state(sequence, group), sequence.swap_step);
  }
  sequence.swapped_tokens = 0;
}

// A sequence that was brought in and not resolved still has its copy in the pool.
Status BlockManager::swap_out(BlockSequence& sequence) {
  if (sequence.swapped_tokens > 0) return {};
  const auto check_room = [](const BlockPool& pool, uint32_t blocks) {
    if (pool.size() > 0) return blocks > pool.free_count() ? out_of_kv() : Status();
    return Status::error(StatusCode::unsupported,
                         "there is no pool to swap to – set kv_cache.swap_memory");
  };
  for (const BlockGroup& group : groups_) {
    const uint32_t blocks = group.blocks_to_swap(sequence.tables[group.id()], sequence.computed);
    if (Status status = check_room(group.swap, blocks); !status.ok()) return status;
  }
  for (const StateGroup& group : states_) {
    if (Status status = check_room(group.swap, sequence.computed > 0); !status.ok()) return status;
  }
  moves_.make_room(blocks_for(sequence.computed));
  for (BlockGroup& group : groups_) {
    BlockTable& table = sequence.tables[group.id()];
    table.swapped.reserve(table.blocks.capacity());
    group.swap_out(table, sequence.computed);
  }
  for (StateGroup& group : states_) group.swap_out(state(sequence, group));
  sequence.swapped_tokens = sequence.computed;
  sequence.swap_step = step_;
  return {};
}

Status BlockManager::release_sequence(SeqId seq, ReleaseHow how) {
  BlockSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  if (how == ReleaseHow::swap) {
    if (Status status = swap_out(*sequence); !status.ok()) return status;
  }
  releasing(*sequence);
  drop_blocks(*sequence);
  if (how == ReleaseHow::swap) return {};
  drop_swapped(*sequence);
  if (how == ReleaseHow::recompute) return {};
  ended(*sequence);
  slots_.erase(seq);
  idle_.push_back(sequence->slot);
  sequence->id = kNoSeq;
  return {};
}

Status BlockManager::usage_of(GroupId id, KvUsage& usage) const {
  const BlockGroup* blocks = find_group(groups_, id);
  const StateGroup* states = find_group(states_, id);
  if (blocks == nullptr && states == nullptr) return wrong("no KV group " + std::to_string(id));
  const BlockPool& pool = blocks != nullptr ? blocks->pool : states->pool;
  const BlockPool& swap = blocks != nullptr ? blocks->swap : states->swap;
  const uint64_t size = blocks != nullptr ? blocks->block_tokens() : 1;
  usage = {};
  usage.total_tokens = pool.size() * size;
  usage.free_tokens = pool.available() * size;
  usage.cached_tokens = pool.cached_count() * size;
  usage.reserved_tokens = usage.total_tokens - usage.free_tokens - pool.parked_count() * size;
  usage.used_tokens = pool.filled_total();
  usage.swap_total_tokens = swap.size() * size;
  usage.swapped_tokens = swap.filled_total();
  return {};
}

Status BlockManager::show_table(BlockSequence& sequence, GroupId id, KvTableView& out) {
  out = {};
  if (const BlockGroup* group = find_group(groups_, id); group != nullptr) {
    out = group->show(sequence.tables[id], sequence.planned_from, sequence.last_step);
    return {};
  }
  const StateGroup* group = find_group(states_, id);
  if (group == nullptr) return wrong("no KV group " + std::to_string(id));
  const StateTable& table = state(sequence, *group);
  out.blocks = table.views[table.shown].blocks;
  out.ends = table.views[table.shown].ends;
  return {};
}

Status BlockManager::check_table(const BlockGroup& group, const BlockSequence& sequence) const {
  const BlockTable& table = sequence.tables[group.id()];
  const std::string who = "sequence " + std::to_string(sequence.id);
  if (table.blocks.size() != group.blocks_for(sequence.granted)) {
    return broken(who + " has " + std::to_string(table.blocks.size()) + " blocks for " +
                  std::to_string(sequence.granted) + " slots");
  }
  for (size_t i = 0; i < table.blocks.size(); ++i) {
    if ((table.blocks[i] == kNoBlock) == group.holds(table, i)) {
      return broken(who + " has a hole in its table");
    }
  }
  if (sequence.granted == sequence.computed) return {};
  for (size_t i = sequence.computed / group.block_tokens(); i < table.blocks.size(); ++i) {
    if (group.pool.shared(table.blocks[i])) return broken(who + " may write into a shared block");
  }
  return {};
}

Status BlockManager::check_slots(const StateGroup& group, const BlockSequence& sequence) const {
  const StateTable& table = state(sequence, group);
  const std::string who = "sequence " + std::to_string(sequence.id);
  const char* flaw = StateGroup::flaw(table, sequence.computed, sequence.granted);
  if (flaw != nullptr) return broken(who + " " + flaw);
  for (size_t i = 1; i < table.slots.size(); ++i) {
    if (group.pool.shared(table.slots[i].block)) {
      return broken(who + " may write into a shared slot");
    }
  }
  if ((table.swapped != kNoBlock) == (sequence.swapped_tokens > 0)) return {};
  return broken(who + " has no state in the pool, or too much");
}

Status BlockManager::check_groups() const {
  Status worst;
  const auto note = [&worst](Status status) {
    if (worst.ok()) worst = std::move(status);
  };
  const auto hold = [](std::vector<uint32_t>& references, BlockId block) {
    if (block != kNoBlock) ++references[static_cast<size_t>(block)];
  };
  each_sequence([&](const BlockSequence& one) {
    const bool order = one.computed <= one.planned_from && one.planned_from <= one.granted;
    if (!order) note(broken("sequence " + std::to_string(one.id) + " has its grants out of order"));
  });
  for (const BlockGroup& group : groups_) {
    std::vector<uint32_t> held(group.pool.size(), 0), in_pool(group.swap.size(), 0);
    each_sequence([&](const BlockSequence& sequence) {
      note(check_table(group, sequence));
      const BlockTable& table = sequence.tables[group.id()];
      for (BlockId block : table.blocks) hold(held, block);
      for (BlockId block : table.swapped) hold(in_pool, block);
    });
    note(group.pool.check(held));
    note(group.swap.check(in_pool));
  }
  for (const StateGroup& group : states_) {
    std::vector<uint32_t> held(group.pool.size(), 0), in_pool(group.swap.size(), 0);
    each_sequence([&](const BlockSequence& sequence) {
      note(check_slots(group, sequence));
      const StateTable& table = state(sequence, group);
      for (const StateSlot& slot : table.slots) hold(held, slot.block);
      hold(in_pool, table.swapped);
    });
    note(group.pool.check(held));
    note(group.swap.check(in_pool));
  }
  return worst.ok() ? check_more() : std::move(worst);
}

}  // namespace tenon::sdk
