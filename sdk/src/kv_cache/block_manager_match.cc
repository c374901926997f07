// How a BlockManager says what can be reused, and what memory would be needed.
#include <tenon/sdk/kv_cache/block_manager.h>

#include <algorithm>

namespace tenon::sdk {

BlockManager::Reuse BlockManager::reuse_for(const BlockSequence& sequence,
                                            const Found& found) const {
  if (sequence.swapped_tokens <= found.tokens + found.partial) {
    return {found.tokens + found.partial, found.tokens, found.partial, 0};
  }
  // What the cache has in whole blocks need not be brought back.
  const uint32_t shared = std::min(found.tokens, sequence.swapped_tokens);
  return {sequence.swapped_tokens, shared, 0, sequence.swapped_tokens - shared};
}

uint32_t BlockManager::pinned(const BlockGroup& group, const BlockSequence& sequence,
                              const Reuse& reuse) {
  uint32_t pinned = 0;
  for (uint32_t i = group.passed(reuse.tokens); i < reuse.shared / group.block_tokens(); ++i) {
    pinned += group.pool.cached(found_block(sequence, group.id(), i));
  }
  return pinned;
}

uint32_t BlockManager::start_slots(const StateGroup& group, const BlockSequence& sequence,
                                   const Reuse& reuse) {
  if (reuse.tokens == 0) return 0;
  if (reuse.restored > 0) return 1;
  return group.pool.cached(found_state(sequence, group.id(), reuse.tokens)) ? 1 : 0;
}

void BlockManager::match_blocks(const BlockGroup& group, BlockSequence& sequence,
                                const Reuse& reuse, uint32_t wanted, KvMatch& out) {
  const BlockTable& table = sequence.tables[group.id()];
  uint64_t have = table.blocks.size(), extra = 0;
  if (sequence.granted == 0) {
    have = std::max(group.gone(group.passed(reuse.tokens)), reuse.shared / group.block_tokens());
    if (wanted > 0) extra = pinned(group, sequence, reuse);
  } else if (wanted > sequence.computed) {
    extra = group.writes_shared(table, sequence.computed);
  }
  // Once it evicts, a sequence takes no more than it gives back.
  const uint32_t from = std::max(sequence.granted, reuse.tokens);
  const uint64_t blocks = group.blocks_for(std::min(wanted, group.next_eviction(from)));
  out.tokens_needed = (blocks - std::min(blocks, have) + extra) * group.block_tokens();
  group.each_held(table, [&](uint32_t i) {
    out.tokens_held += group.block_tokens();
    if (!group.pool.shared(table.blocks[i])) out.tokens_exclusive += group.block_tokens();
  });
}

void BlockManager::match_states(const StateGroup& group, BlockSequence& sequence,
                                const Reuse& reuse, uint32_t known, uint32_t wanted, KvMatch& out) {
  const uint32_t from = std::max(sequence.granted, reuse.tokens);
  if (wanted > from) {
    out.tokens_needed = StateGroup::ends(from, wanted, known) + start_slots(group, sequence, reuse);
  }
  for (const StateSlot& slot : state(sequence, group).slots) {
    if (slot.block == kNoBlock) continue;
    ++out.tokens_held;
    out.tokens_exclusive += !group.pool.shared(slot.block);
  }
}

Status BlockManager::match_sequence(SeqId seq, std::span<const TokenId> tokens,
                                    uint32_t wanted_tokens, KvMatch& out) {
  BlockSequence* sequence = find(seq);
  if (sequence == nullptr) return unknown(seq);
  out = {};
  Reuse reuse;
  uint32_t wanted = std::min(wanted_tokens, sequence->limit);
  if (sequence->granted == 0) {
    const Found found = find_prefix(*sequence, tokens);
    reuse = reuse_for(*sequence, found);
    out.ready = reuse.tokens;
    out.promised = std::max(found.promised_end, reuse.tokens) - reuse.tokens;
    if (wanted > 0) wanted = std::max(wanted, std::min(reuse.tokens + 1, sequence->limit));
  }
  if (const BlockGroup* group = find_group(groups_, ledger_group_); group != nullptr) {
    match_blocks(*group, *sequence, reuse, wanted, out);
  } else {
    match_states(*find_group(states_, ledger_group_), *sequence, reuse,
                 static_cast<uint32_t>(tokens.size()), wanted, out);
  }
  return {};
}

}  // namespace tenon::sdk
