// Which states of recurrent groups a PrefixManager keeps.
#include <tenon/sdk/kv_cache/prefix_manager.h>

#include <algorithm>
#include <utility>

namespace tenon::sdk {

// Nodes after `from` are held by this sequence's own chain, once each. Whoever else holds one has
// it on a path of its own: the last such node is where paths part.
PrefixManager::OnTheWay PrefixManager::worth_keeping(BlockSequence& sequence,
                                                     std::span<const TokenId> tokens, uint32_t from,
                                                     uint32_t end) {
  Chain& mine = chain(sequence);
  // A prompt that ends with a block has a slot there anyway; whoever asks the same again leaves its
  // last token to compute, and starts one block before.
  const bool whole = end == tokens.size();
  const uint32_t first = from / block_tokens_, last = (whole ? end - 1 : end) / block_tokens_;
  OnTheWay worth;
  if (last <= first) return worth;
  extend(mine, tokens);
  uint32_t parting = last;
  while (parting > first && index_.holders(mine.at(parting)) < 2) --parting;
  const auto add = [&](uint32_t entry) {
    const bool own =
        std::count(mine.promised_states.begin(), mine.promised_states.end(), entry) > 0;
    const NodeId node = mine.at(entry);
    if (has_state(node) || (index_.state_promised(node) && !own)) return;
    worth.add(entry * block_tokens_);
  };
  if (parting > first) add(parting);
  if (parting < last) add(last);
  return worth;
}

// Whether others have tokens of their own after the node, or end there: whether anything holds it
// in addition to this sequence's chain and the blocks of one sequence.
bool PrefixManager::parts_here(NodeId node) const {
  uint32_t own = 1;
  for (const BlockGroup& group : groups()) own += index_.block_of(node, group.id()) != kNoBlock;
  for (const StateGroup& group : states()) own += index_.block_of(node, group.id()) != kNoBlock;
  return index_.holders(node) > own;
}

// All slots up to the first end of their step have come true, and of the others those that the
// sequence has reached. Only the last of them is of use later, and those that were asked for.
void PrefixManager::passing_states(BlockSequence& sequence, std::span<const TokenId> tokens,
                                   bool in_flight) {
  if (tokens.size() < sequence.computed) return;
  Chain& mine = chain(sequence);
  const StateTable& table = sequence.states.front();
  const size_t first_end = in_flight ? table.start : table.first_end;
  size_t latest = 0;
  for (size_t i = 1; i < table.slots.size() && table.slots[i].end <= sequence.computed; ++i) {
    if (table.slots[i].end % block_tokens_ != 0) continue;
    extend(mine, tokens);
    if (latest > 0 && latest < first_end) keep_state(sequence, latest, mine);
    latest = i;
  }
  if (latest > 0) {
    drop_latest_state(mine);
    keep_state(sequence, latest, mine);
    mine.latest_state = table.slots[latest].end / block_tokens_;
  }
  if (mine.prompt_tokens == 0 || sequence.computed < mine.prompt_tokens) return;
  mine.prompt_tokens = mine.latest_state = 0;
}

void PrefixManager::keep_state(BlockSequence& sequence, size_t slot, Chain& mine) {
  const uint32_t entry = sequence.states.front().slots[slot].end / block_tokens_;
  const NodeId node = mine.at(entry);
  for (StateGroup& group : states()) {
    if (index_.block_of(node, group.id()) != kNoBlock) continue;
    keep(group, state(sequence, group).slots[slot].block, node, mine, entry - 1);
    ++counters().kept_states;
  }
}

// A later one takes its place, unless somebody else has found it or may look for it.
void PrefixManager::drop_latest_state(Chain& mine) {
  const uint32_t entry = std::exchange(mine.latest_state, 0);
  if (entry == 0 || parts_here(mine.at(entry))) return;
  for (StateGroup& group : states()) {
    const BlockId block = index_.block_of(mine.at(entry), group.id());
    if (block == kNoBlock) continue;
    if (group.pool.owner(block) != mine.number || group.pool.finds(block) > 0) continue;
    forget(group.id(), block);
    group.pool.unkeep(block);
  }
}

void PrefixManager::take_state_promises_back(Chain& mine) {
  for (const uint32_t entry : mine.promised_states) {
    index_.take_state_promise_back(mine.at(entry));
  }
  mine.promised_states.clear();
}

// What steps not yet resolved write at block ends, as far as they end there or pass by for certain.
void PrefixManager::promise_states(const BlockSequence& sequence, Chain& mine) {
  if (sequence.states.empty()) return;
  take_state_promises_back(mine);
  const StateTable& table = sequence.states.front();
  for (size_t i = 1; i <= table.first_end; ++i) {
    const uint32_t entry = table.slots[i].end / block_tokens_;
    if (table.slots[i].end % block_tokens_ != 0 || entry > mine.nodes.size()) continue;
    index_.promise_state(mine.at(entry));
    mine.promised_states.push_back(entry);
  }
}

}  // namespace tenon::sdk
