// How a BlockManager keeps and gives back: resolve, release, swap; and how it is counted and
// checked.
#include <tenon/sdk/kv_cache/block_manager.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon::sdk {

// Brings kept slots together behind `base`. Rising order: no source is overwritten before it was
// read.
void BlockManager::gather(const BlockSequence& sequence, uint32_t base,
                          std::span<const uint32_t> kept) {
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
  trimmed(*sequence);
  return {};
}

Status BlockManager::resolve_sequence(const KvOutcome& outcome) {
  BlockSequence* sequence = find(outcome.seq);
  if (sequence == nullptr) return unknown(outcome.seq);
  if (Status status = sequence->check_resolve(outcome); !status.ok()) return status;
  const uint32_t computed = outcome.computed;
  gather(*sequence, outcome.base, outcome.kept);
  if (sequence->granted > 0 && sequence->swapped_tokens > 0) drop_swapped(*sequence);
  sequence->computed = sequence->granted = sequence->planned_from = computed;
  for (BlockGroup& group : groups_) {
    BlockTable& table = sequence->tables[group.id()];
    group.shrink(table, computed, sequence->last_step);
    group.fill(table, outcome.base, computed);
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
  sequence.computed = sequence.granted = sequence.planned_from = 0;
}

void BlockManager::drop_swapped(BlockSequence& sequence) {
  for (BlockGroup& group : groups_) {
    group.drop_swapped(sequence.tables[group.id()], sequence.swap_step);
  }
  swapped_tokens_ -= sequence.swapped_tokens;
  sequence.swapped_tokens = 0;
}

// A sequence that was brought in and not resolved still has its copy in the pool.
Status BlockManager::swap_out(BlockSequence& sequence) {
  if (sequence.swapped_tokens > 0) return {};
  for (const BlockGroup& group : groups_) {
    if (group.swap.size() == 0) {
      return Status::error(StatusCode::unsupported,
                           "there is no pool to swap to – set kv_cache.swap_memory");
    }
    const BlockTable& table = sequence.tables[group.id()];
    if (group.blocks_to_swap(table, sequence.computed) > group.swap.free_count()) {
      return out_of_kv();
    }
  }
  moves_.make_room(groups_.size() * groups_.front().blocks_for(sequence.computed));
  for (BlockGroup& group : groups_) {
    BlockTable& table = sequence.tables[group.id()];
    table.swapped.reserve(table.blocks.capacity());
    group.swap_out(table, sequence.computed);
  }
  sequence.swapped_tokens = sequence.computed;
  sequence.swap_step = step_;
  swapped_tokens_ += sequence.computed;
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
  if (id >= groups_.size()) return wrong("no KV group " + std::to_string(id));
  const BlockGroup& group = groups_[id];
  const uint64_t size = group.block_tokens();
  usage = {};
  usage.total_tokens = group.pool.size() * size;
  usage.free_tokens = group.pool.available() * size;
  usage.cached_tokens = group.pool.cached_count() * size;
  usage.reserved_tokens = usage.total_tokens - usage.free_tokens - group.pool.parked_count() * size;
  usage.used_tokens = group.pool.filled_total();
  usage.swap_total_tokens = group.swap.size() * size;
  usage.swapped_tokens = swapped_tokens_;
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
    if ((table.blocks[i] == kNoBlock) != (i < table.left_behind)) {
      return broken(who + " has a hole in its table");
    }
  }
  const size_t next = sequence.computed / group.block_tokens();
  if (sequence.granted > sequence.computed && next < table.blocks.size() &&
      group.pool.shared(table.blocks[next])) {
    return broken(who + " may write into a shared block");
  }
  return {};
}

Status BlockManager::check_groups() const {
  uint64_t swapped = 0;
  each_sequence([&](const BlockSequence& sequence) { swapped += sequence.swapped_tokens; });
  if (swapped != swapped_tokens_) return broken("the sum of swapped tokens is wrong");
  for (const BlockGroup& group : groups_) {
    std::vector<uint32_t> expected(group.pool.size(), 0), in_pool(group.swap.size(), 0);
    Status tables;
    each_sequence([&](const BlockSequence& sequence) {
      if (Status status = check_table(group, sequence); !status.ok()) tables = std::move(status);
      const BlockTable& table = sequence.tables[group.id()];
      for (BlockId block : table.blocks) {
        if (block != kNoBlock) ++expected[static_cast<size_t>(block)];
      }
      for (BlockId block : table.swapped) ++in_pool[static_cast<size_t>(block)];
    });
    if (!tables.ok()) return tables;
    if (Status status = group.pool.check(expected); !status.ok()) return status;
    if (Status status = group.swap.check(in_pool); !status.ok()) return status;
  }
  return check_more();
}

}  // namespace tenon::sdk
