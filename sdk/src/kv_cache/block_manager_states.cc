// How a BlockManager grants slots of recurrent groups.
#include <tenon/sdk/kv_cache/block_manager.h>

#include <algorithm>

namespace tenon::sdk {

// Slots on the way come out of what is to spare: one stays for each live sequence, as far as they
// can run together, and no cost has them in it. Once the step is done they can be evicted.
BlockManager::OnTheWay BlockManager::on_the_way(BlockSequence& sequence, const KvRequest& request,
                                                const Reuse& reuse, uint32_t end) {
  if (states_.empty()) return {};
  const uint32_t from = request.computed + reuse.tokens, known = request.known_tokens;
  const uint32_t first_end = StateGroup::first_end(from, end, known);
  if (first_end == from + 1) return {};
  const auto ids = static_cast<uint32_t>(request.tokens.size());
  OnTheWay passed = worth_keeping(sequence, request.tokens, from, std::min(first_end, ids));
  passed.drop(first_end);
  for (const StateGroup& group : states_) {
    const uint32_t at_hand =
        reuse.tokens > 0 ? 0 : StateGroup::at_hand(state(sequence, group), from);
    const uint64_t slots = uint64_t{group.pool.available()} + at_hand;
    const uint32_t others = std::min({slots_.size(), max_sequences_, group.pool.size() / 2});
    const uint64_t taken =
        uint64_t{StateGroup::ends(from, end, known)} + start_slots(group, sequence, reuse) + others;
    passed.count =
        static_cast<uint32_t>(std::min<uint64_t>(passed.count, slots - std::min(slots, taken)));
  }
  return passed;
}

// What was found is held before any slot is taken, as with blocks.
void BlockManager::give_states(BlockSequence& sequence, const KvRequest& request,
                               const Reuse& reuse, const OnTheWay& on_the_way) {
  const uint32_t from = request.computed + reuse.tokens, end = sequence.granted;
  for (StateGroup& group : states_) {
    StateTable& table = state(sequence, group);
    if (reuse.restored > 0) {
      make_free(group, 1);
      group.swap_in(table, reuse.tokens, step_);
    } else if (reuse.tokens > 0) {
      const BlockId found = found_state(sequence, group.id(), reuse.tokens);
      group.start_from(table, found, reuse.tokens, step_);
    }
    const uint32_t slots = on_the_way.count + StateGroup::ends(from, end, request.known_tokens);
    const uint32_t at_hand = StateGroup::at_hand(table, from);
    make_free(group, slots - std::min(slots, at_hand));
    group.grow(table, from, end, request.known_tokens, on_the_way.all(), step_);
  }
}

}  // namespace tenon::sdk
