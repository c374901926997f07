// What is handed down to tiers and over to other workers, and what other workers send.
#include <algorithm>

#include "core/engine/memory/tiering.h"

namespace tenon {

template <typename Taker>
bool Tiering::put(const KvKey& key, const TierGroup& group, BlockId block, Taker& taker) {
  if (taker.has(key)) return true;
  KvBlob blob(group.bytes);
  bytes_->read_block(group.group, block, 0, blob);
  return taker.put(key, std::move(blob));
}

bool Tiering::keep_block(const Step& step, const Share& share, const Entry& entry, uint32_t block) {
  for (const TierGroup& group : world_->groups) {
    if (group.is_state) continue;
    const KvTableView& table = step.batch.groups[group.group].tables[share.place];
    if (block >= table.blocks.size() || table.blocks[block] == kNoBlock) continue;
    const KvKey key{entry.contents[block], group.group};
    if (!put(key, group, table.blocks[block], *tiers_)) return false;
  }
  return true;
}

// After the last whole block of a prompt, and where slots on the way say that prompts part.
template <typename Taker>
void Tiering::keep_states(const Step& step, const Share& share, const Entry& entry, uint32_t end,
                          Taker& taker) {
  const uint32_t prompt = share.sequence->prompt_tokens;
  const uint32_t last = (prompt - 1) / block_tokens_ * block_tokens_;
  for (const TierGroup& group : world_->groups) {
    if (!group.is_state) continue;
    const KvTableView& table = step.batch.groups[group.group].tables[share.place];
    for (size_t slot = 1; slot < table.ends.size(); ++slot) {
      const uint32_t at = table.ends[slot];
      const bool worth = slot + 1 < table.ends.size() || at == last || at == prompt;
      if (at > end || at % block_tokens_ != 0 || !worth) continue;
      const KvKey key{entry.contents[at / block_tokens_ - 1], group.group};
      (void)put(key, group, table.blocks[slot], taker);
    }
  }
}

// Of beams the prompt alone: hardly any of their paths is asked for again. Without the state after
// them blocks of an answer are of no use. The path of a tree is brought together later.
void Tiering::keep_share(const Step& step, const Share& share) {
  const Sequence& sequence = *share.sequence;
  uint32_t end = share.base + share.tokens + (share.parents.empty() ? share.accepted : 0);
  if (recurs_ || sequence.answer->traits.grouped) end = std::min(end, sequence.prompt_tokens);
  end = std::min(end, sequence.known);
  const uint32_t blocks = end / block_tokens_;
  if (blocks == 0) return;
  Entry& entry = entry_of(sequence);
  extend(entry, sequence, blocks);
  if (recurs_) keep_states(step, share, entry, end, *tiers_);
  for (; entry.kept_blocks < blocks; ++entry.kept_blocks) {
    if (!keep_block(step, share, entry, entry.kept_blocks)) return;
  }
}

// The part's bytes up to there; those that it has stay.
void Tiering::read(KvPart& part, GroupId group, BlockId block, uint64_t until) const {
  const uint64_t from = part.ready.load(std::memory_order_relaxed);
  if (until <= from) return;
  bytes_->read_block(group, block, from, std::span(part.bytes).subspan(from, until - from));
  part.ready.store(until, std::memory_order_release);
}

bool Tiering::hand_over_block(const Step& step, const Share& share, KvExport& to, uint32_t block) {
  const Entry& entry = entries_.at(share.sequence->id);
  for (const TierGroup& group : world_->groups) {
    if (group.is_state) continue;
    const KvTableView& table = step.batch.groups[group.group].tables[share.place];
    if (block >= table.blocks.size() || table.blocks[block] == kNoBlock) continue;
    const KvKey key{entry.contents[block], group.group};
    if (to.has(key)) continue;
    const std::shared_ptr<KvPart> part = to.begin(key, group.bytes);
    if (part == nullptr) return false;
    read(*part, group.group, table.blocks[block], group.bytes);
    if (!to.finish(key)) return false;
  }
  return true;
}

// Leading blocks that are final.
void Tiering::hand_over(const Step& step, const Share& share, KvExport& to, uint32_t blocks) {
  Entry& entry = entry_of(*share.sequence);
  extend(entry, *share.sequence, blocks);
  for (; entry.sent_blocks < blocks; ++entry.sent_blocks) {
    if (!hand_over_block(step, share, to, entry.sent_blocks)) return;
  }
}

// What was computed before the step is handed over with its first chunk, ahead of it. Of the step's
// own blocks there is a place for what its layers make.
void Tiering::begin_blocks(const Step& step, const Share& share) {
  const Sequence& sequence = *share.sequence;
  KvExport* const to = sequence.request->request.kv_export.get();
  if (to == nullptr) return;
  const uint32_t final_blocks = std::min(share.base, sequence.prompt_tokens) / block_tokens_;
  const uint32_t end = std::min(share.base + share.tokens, sequence.prompt_tokens);
  hand_over(step, share, *to, final_blocks);
  Entry& entry = entry_of(sequence);
  extend(entry, sequence, end / block_tokens_);
  for (uint32_t block = final_blocks; block < end / block_tokens_; ++block) {
    for (const TierGroup& group : world_->groups) {
      if (group.is_state) continue;
      const KvTableView& table = step.batch.groups[group.group].tables[share.place];
      if (block >= table.blocks.size() || table.blocks[block] == kNoBlock) continue;
      const KvKey key{entry.contents[block], group.group};
      if (to->has(key)) continue;
      std::shared_ptr<KvPart> part = to->begin(key, group.bytes);
      if (part == nullptr) return;
      growing_.push_back({std::move(part), to->place(), group.group, table.blocks[block]});
    }
  }
}

void Tiering::watch(const Step& step) {
  if (transfer_ == nullptr || step.empty()) return;
  Stopwatch stopwatch(*context_.parts.clock, context_.times.executor_ns);
  growing_.clear();
  watched_ = step.id;
  for (const Share& share : step.shares) {
    if (is_kept(share)) begin_blocks(step, share);
  }
  bytes_->watch(growing_.empty() ? nullptr : this);
}

// All of a block is handed over once the step is known to be good: nobody uses parts of one.
void Tiering::on_ready(std::span<const uint64_t> bytes) {
  for (const Growing& growing : growing_) {
    const uint64_t ready = bytes[growing.group];
    if (ready < growing.part->bytes.size()) {
      read(*growing.part, growing.group, growing.block, ready);
    }
  }
  const Exports* told = nullptr;  // a server has one place: requests hardly ever take turns
  for (const Growing& growing : growing_) {
    if (growing.place.get() == told) continue;
    told = growing.place.get();
    growing.place->note_change();
  }
}

// The prompt's whole blocks, as its chunks are computed.
void Tiering::export_share(const Step& step, const Share& share) {
  const Sequence& sequence = *share.sequence;
  KvExport* const to = sequence.request->request.kv_export.get();
  if (to == nullptr) return;
  const uint32_t end = std::min(share.base + share.tokens, sequence.prompt_tokens);
  const uint32_t blocks = end / block_tokens_;
  hand_over(step, share, *to, blocks);
  if (recurs_) keep_states(step, share, entry_of(sequence), end, *to);
  if (end == sequence.prompt_tokens) to->complete();
}

// Whether others can go on from what the share computes.
bool Tiering::is_kept(const Share& share) const {
  const AnswerTraits& traits = share.sequence->answer->traits;
  const bool ended = share.sequence->state == SequenceState::ended;
  return share.parent == nullptr && !ended && !traits.own_kv && !traits.whole;
}

void Tiering::keep(const Step& step) {
  if (world_ == nullptr || step.empty()) return;
  Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
  for (const Share& share : step.shares) {
    if (!is_kept(share)) continue;
    if (tiers_ != nullptr) keep_share(step, share);
    if (transfer_ != nullptr) export_share(step, share);
  }
  if (step.id == watched_) growing_.clear();
}

bool Tiering::may_fetch(const Sequence& sequence) const {
  const KvImport* const from = sequence.request->request.kv_import.get();
  if (transfer_ == nullptr || from == nullptr || !from->is_held()) return false;
  const AnswerTraits& traits = sequence.answer->traits;
  const bool shares = !traits.own_kv && !traits.whole && !sequence.answer->held_back();
  if (!shares || !sequence.in_kv_cache || sequence.computed > 0) return false;
  const auto entry = entries_.find(sequence.id);
  return entry == entries_.end() || !entry->second.was_fetched;
}

// Whether the sequence waits for it now.
bool Tiering::fetch(const Sequence& sequence) {
  Entry& entry = entry_of(sequence);
  entry.was_fetched = true;
  entry.is_fetching = ask(sequence, entry);
  if (!entry.is_fetching) {
    sequence.request->request.kv_import->release();
    return false;
  }
  context_.awaiting_kv.insert(sequence.id);
  return true;
}

// Asks for the blocks that are not here. False: all of them are, or others compute them here.
bool Tiering::ask(const Sequence& sequence, Entry& entry) {
  const std::span<const TokenId> tokens = sequence.wanted_tokens();
  const auto most = static_cast<uint32_t>((std::max<size_t>(tokens.size(), 1) - 1) / block_tokens_);
  KvMatch match;
  {
    PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
    if (!context_.parts.kv_cache->match(sequence.id, tokens, 0, match).ok()) return false;
  }
  if ((match.ready + match.promised) / block_tokens_ >= most) return false;
  extend(entry, sequence, most);
  entry.sought_tokens = most * block_tokens_ - match.ready;
  entry.since_ns = context_.parts.clock->now_ns();
  const std::vector<ContentDigest> contents(entry.contents.begin(), entry.contents.begin() + most);
  entry.fetch = transfer_->incoming().fetch(sequence.request->request.kv_import->place(),
                                            match.ready / block_tokens_, contents);
  return true;
}

// Whether the sequence waits for it no more. Whoever sends answers in bounded time, or is answered
// for; then it may free what it has.
bool Tiering::settle_fetch(Sequence& sequence, Entry& entry, Planning planning) {
  KvImport& from = *sequence.request->request.kv_import;
  if (entry.found == nullptr && entry.fetch == 0 && !ask(sequence, entry)) {
    from.release();
    return true;
  }
  if (entry.found == nullptr) {
    entry.found = transfer_->incoming().take(entry.fetch);
    if (entry.found == nullptr) return false;
    entry.found->is_fetched = true;
    entry.fetch = 0;
    entry.since_ns = context_.parts.clock->now_ns();
    from.release();
  }
  return bring_found(sequence, entry, planning);
}

}  // namespace tenon
