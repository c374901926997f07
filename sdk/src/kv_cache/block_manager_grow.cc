// How a BlockManager begins sequences and grants memory.
#include <tenon/sdk/kv_cache/block_manager.h>

#include <algorithm>
#include <memory>
#include <string>

namespace tenon::sdk {

Status BlockManager::bind_groups(const ModelShape& model, const KvGeometry& geometry) {
  if (model.group_count != geometry.group_count || geometry.group_count == 0) {
    return wrong("the model has " + std::to_string(model.group_count) +
                 " KV groups and the geometry " + std::to_string(geometry.group_count) +
                 " – they must be the same, and at least one");
  }
  groups_.clear();
  states_.clear();
  slots_ = SequenceMap();
  slots_.reserve(geometry.max_sequences);
  sequences_.clear();
  idle_.clear();
  for (GroupId g = 0; g < geometry.group_count; ++g) {
    const bool recurrent = model.groups[g].kind == KvKind::recurrent;
    if (geometry.groups[g].block_tokens == 0 || geometry.groups[g].blocks == 0) {
      return wrong("KV group " + std::to_string(g) + " has no blocks – raise kv_cache.memory");
    }
    if (recurrent) {
      states_.emplace_back(g, geometry.groups[g], order_, moves_, counters_);
      continue;
    }
    SinkWindow kept;
    if (model.groups[g].window_tokens == 0) kept = kept_of(model.groups[g], geometry.groups[g]);
    // Where the context ends before anything goes, nothing takes its place.
    if (geometry.context_tokens <= kept.first()) kept.rewritten = false;
    groups_.emplace_back(g, model.groups[g], geometry.groups[g], order_, kept, moves_, counters_);
  }
  if (model.ledger_group >= geometry.group_count) {
    return wrong("memory is to be counted in KV group " + std::to_string(model.ledger_group) +
                 " – there are " + std::to_string(geometry.group_count));
  }
  ledger_group_ = model.ledger_group;
  context_ = geometry.context_tokens;
  max_sequences_ = geometry.max_sequences;
  moves_.reserve(size_t{4} * geometry.max_sequences * geometry.group_count + 64);
  return bound();
}

// A sequence without blocks, whose tables grow without allocating.
BlockSequence& BlockManager::blank(SeqId seq, uint32_t limit) {
  if (idle_.empty()) {
    const auto slot = static_cast<uint32_t>(sequences_.size());
    idle_.reserve(sequences_.size() + 1);
    sequences_.push_back(std::make_unique<BlockSequence>());
    sequences_.back()->slot = slot;
    sequences_.back()->tables.resize(groups_.size() + states_.size());
    sequences_.back()->states.resize(states_.size());
    idle_.push_back(slot);
  }
  BlockSequence& made = *sequences_[idle_.back()];
  static_cast<KvProgress&>(made) = {};
  made.limit = std::min(limit, context_);
  made.swapped_tokens = 0;
  made.swap_step = 0;
  for (const BlockGroup& group : groups_) group.make_room(made.tables[group.id()], made.limit);
  slots_.insert(seq, made.slot);
  idle_.pop_back();
  made.id = seq;
  return made;
}

// A parent's last block may be partly filled. It can have two readers as it is when it ends where
// the child begins and nobody is about to write to it.
bool BlockManager::tail_as_it_is(const BlockSequence& parent, uint32_t tokens) const {
  return shares_tails() && tokens == parent.computed && parent.granted == parent.computed;
}

bool BlockManager::copies_tail(const BlockGroup& group, const BlockSequence& parent,
                               uint32_t tokens) const {
  return tokens % group.block_tokens() != 0 && !tail_as_it_is(parent, tokens) &&
         tokens / group.block_tokens() >= group.unshared(group.blocks_for(tokens));
}

Status BlockManager::check_fork(const KvSequence& sequence, const BlockSequence& parent,
                                uint32_t limit) {
  const uint32_t tokens = sequence.parent_tokens;
  if (tokens > parent.computed || tokens > limit) {
    return wrong("a fork at token " + std::to_string(tokens) + " – the parent has " +
                 std::to_string(parent.computed));
  }
  for (const BlockGroup& group : groups_) {
    if (parent.tables[group.id()].left_behind > group.passed(tokens)) {
      return Status::error(StatusCode::unsupported,
                           "a fork at token " + std::to_string(tokens) +
                               " – the parent's window has left what it would see");
    }
    if (group.rewrites() && tokens > 0 && tokens != parent.computed) {
      return Status::error(StatusCode::unsupported,
                           "a fork at token " + std::to_string(tokens) +
                               " – what weight entries got is known behind token " +
                               std::to_string(parent.computed) + " alone");
    }
    const uint32_t unshared = group.unshared(group.blocks_for(tokens));
    const bool copy = copies_tail(group, parent, tokens);
    if (group.pool.available() < unshared + (copy ? 1 : 0)) return out_of_kv();
  }
  for (const StateGroup& group : states_) {
    if (tokens == 0) break;
    if (tokens != parent.computed) {
      return Status::error(StatusCode::unsupported,
                           "a fork at token " + std::to_string(tokens) +
                               " – the parent's recurrent state is there behind token " +
                               std::to_string(parent.computed) + " alone");
    }
    if (!shares_tails() && group.pool.free_count() == 0) return out_of_kv();
  }
  return {};
}

Status BlockManager::begin_sequence(const KvSequence& sequence) {
  if (sequence.seq == kNoSeq || find(sequence.seq) != nullptr) {
    return wrong("sequence " + std::to_string(sequence.seq) + " has begun already");
  }
  const BlockSequence* parent = nullptr;
  if (sequence.parent != kNoSeq) {
    parent = find(sequence.parent);
    if (parent == nullptr) return unknown(sequence.parent);
    const uint32_t limit = std::min(sequence.limit_tokens, context_);
    if (Status status = check_fork(sequence, *parent, limit); !status.ok()) return status;
  }
  size_t moves = groups_.size() + states_.size();
  for (const BlockGroup& group : groups_) {
    moves += group.unshared(group.blocks_for(sequence.parent_tokens));
  }
  moves_.make_room(moves);
  BlockSequence& child = blank(sequence.seq, sequence.limit_tokens);
  begun(child, sequence, parent);
  if (parent != nullptr) share_parent(child, *parent, sequence.parent_tokens);
  return {};
}

void BlockManager::share_parent(BlockSequence& child, const BlockSequence& parent,
                                uint32_t tokens) {
  child.computed = child.granted = child.planned_from = tokens;
  child.last_step = parent.last_step;
  for (BlockGroup& group : groups_) {
    BlockTable& table = child.tables[group.id()];
    const BlockTable& from = parent.tables[group.id()];
    const uint32_t blocks = group.blocks_for(tokens);
    table.left_behind = std::min(from.left_behind, blocks);
    table.blocks.assign(from.blocks.begin(), from.blocks.begin() + blocks);
    group.each_held(table, [&](uint32_t i) { group.pool.share(table.blocks[i]); });
    for (uint32_t i = 0; i < group.unshared(blocks); ++i) {
      group.copy_block(table, i, tokens, take(group), child.last_step);
    }
    if (copies_tail(group, parent, tokens) && table.left_behind < blocks) {
      group.copy_tail(table, tokens, take(group), child.last_step);
    }
  }
  for (StateGroup& group : states_) {
    if (tokens > 0) group.share(state(child, group), state(parent, group), !shares_tails());
  }
}

// The caller did not know what would be found: only the known tokens after it, and the draft slots
// requested after those, can be of use.
BlockManager::Range BlockManager::still_useful(Range range, uint32_t known, const Reuse& reuse) {
  if (reuse.tokens == 0 || known <= reuse.tokens) return range;
  const uint32_t drafts = range.at_most > known ? range.at_most - known : 0;
  const uint32_t most = std::min(range.at_most, known - reuse.tokens + drafts);
  return {std::min(range.at_least, most), most};
}

uint32_t BlockManager::next_eviction(uint32_t from) const {
  uint32_t next = SinkWindow::kNever;
  for (const BlockGroup& group : groups_) next = std::min(next, group.next_eviction(from));
  return next;
}

size_t BlockManager::blocks_for(uint32_t tokens) const {
  size_t blocks = states_.size();
  for (const BlockGroup& group : groups_) blocks += group.blocks_for(tokens);
  return blocks;
}

// How many tokens there is memory for in all groups, `most` at most.
Status BlockManager::room_for(BlockSequence& sequence, const KvRequest& request, const Reuse& reuse,
                              uint64_t& most) {
  const uint32_t from = request.computed + reuse.tokens;
  for (const BlockGroup& group : groups_) {
    const BlockTable& table = sequence.tables[group.id()];
    const uint64_t taken = uint64_t{group.writes_shared(table, request.computed)} +
                           (reuse.shared > 0 ? pinned(group, sequence, reuse) : 0);
    if (taken > group.pool.available()) return out_of_kv();
    const uint64_t have = reuse.tokens > 0 ? std::max(group.gone(group.passed(from)),
                                                      reuse.shared / group.block_tokens())
                                           : table.blocks.size();
    const uint64_t slots = (have + group.pool.available() - taken) * group.block_tokens();
    most = std::min(most, slots > from ? slots - from : 0);
  }
  for (const StateGroup& group : states_) {
    StateTable& table = state(sequence, group);
    uint32_t slots = group.pool.available();
    if (reuse.tokens > 0) {
      const uint32_t taken = start_slots(group, sequence, reuse);
      if (taken > slots) return out_of_kv();
      slots -= taken;
    } else if (!StateGroup::can_start(table, from)) {
      return wrong("sequence " + std::to_string(sequence.id) + " cannot go on behind token " +
                   std::to_string(from) + " – a step in flight may end elsewhere");
    } else {
      slots += StateGroup::at_hand(table, from);
    }
    most = std::min<uint64_t>(most, StateGroup::most(from, request.known_tokens, slots));
  }
  return {};
}

Status BlockManager::grow_sequence(const KvRequest& request, KvGrant& out) {
  BlockSequence* sequence = find(request.seq);
  if (sequence == nullptr) return unknown(request.seq);
  if (Status status = sequence->check_grow(request, step_); !status.ok()) return status;
  Reuse reuse;
  if (sequence->granted == 0) reuse = reuse_for(*sequence, find_prefix(*sequence, request.tokens));
  Range range = still_useful({request.at_least, request.at_most}, request.known_tokens, reuse);
  const uint32_t from = request.computed + reuse.tokens;
  const uint32_t fits = next_eviction(from) - from;
  if (reuse.tokens > 0) range.at_least = std::min(range.at_least, fits);
  if (range.at_least > fits) {
    return wrong("sequence " + std::to_string(sequence->id) + " asked for " +
                 std::to_string(range.at_least) + " tokens at once behind " + std::to_string(from) +
                 " – what rows see changes at " + std::to_string(from + fits) +
                 ", and a step ends in front of it");
  }
  uint64_t most = std::min({range.at_most, sequence->limit - from, fits});
  if (Status status = room_for(*sequence, request, reuse, most); !status.ok()) return status;
  if (most < range.at_least) return out_of_kv();
  const uint32_t end = std::max(sequence->granted, from + static_cast<uint32_t>(most));
  moves_.make_room(groups_.size() + blocks_for(reuse.restored > 0 ? reuse.tokens : 0));
  const OnTheWay passed = on_the_way(*sequence, request, reuse, end);
  for (StateTable& table : sequence->states) {
    StateGroup::make_room(table, from,
                          passed.count + StateGroup::ends(from, end, request.known_tokens));
  }

  // From here on nothing fails.
  sequence->granted = end;
  sequence->last_step = step_;
  give_blocks(*sequence, reuse, from, end);
  give_states(*sequence, request, reuse, passed);
  sequence->computed += reuse.tokens;
  sequence->planned_from = from;
  if (reuse.restored > 0) sequence->swap_step = step_;
  counters_.hit_tokens += reuse.shared + reuse.partial;
  out = {reuse.tokens, static_cast<uint32_t>(most), reuse.restored};
  grown(*sequence, request.tokens, reuse.shared);
  return {};
}

void BlockManager::give_blocks(BlockSequence& sequence, const Reuse& reuse, uint32_t from,
                               uint32_t end) {
  for (BlockGroup& group : groups_) {
    BlockTable& table = sequence.tables[group.id()];
    if (reuse.tokens > 0) {
      bring_in(group, sequence, reuse);
    } else if (group.writes_shared(table, from)) {
      group.copy_tail(table, from, take(group), sequence.last_step);
    }
    const uint32_t blocks = group.blocks_for(end);
    while (table.blocks.size() < blocks) table.blocks.push_back(take(group));
  }
}

// Fills the empty table of a sequence with what is reused. Blocks that are shared are held before
// any is taken, so none of them is handed out; the one to copy may be, its content is read first.
void BlockManager::bring_in(BlockGroup& group, BlockSequence& sequence, const Reuse& reuse) {
  BlockTable& table = sequence.tables[group.id()];
  const uint32_t shared = reuse.shared / group.block_tokens();
  table.left_behind = group.passed(reuse.tokens);
  table.blocks.assign(table.left_behind, kNoBlock);
  group.each_held(table, [&](uint32_t i) { table.blocks[i] = take(group); });  // sinks
  for (uint32_t i = table.left_behind; i < shared; ++i) {
    const BlockId block = found_block(sequence, group.id(), i);
    group.pool.find(block);
    group.pool.set_filled(block, group.block_tokens());
    table.blocks.push_back(block);
  }
  const BlockId source = reuse.partial > 0 ? found_block(sequence, group.id(), shared) : kNoBlock;
  if (source != kNoBlock) group.pool.touch(source);
  while (table.blocks.size() < group.blocks_for(reuse.tokens)) table.blocks.push_back(take(group));
  if (source != kNoBlock) group.copy_into(source, table.blocks[shared], reuse.partial);
  if (reuse.restored > 0) group.swap_in(table, shared, reuse.tokens);
}

}  // namespace tenon::sdk
