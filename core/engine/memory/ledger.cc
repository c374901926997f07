#include "core/engine/memory/ledger.h"

#include <algorithm>

#include "core/engine/step/eviction.h"

namespace tenon {

void Ledger::begin_plan(uint64_t step_id, Planning planning) {
  begin_rest(planning);
  note(manager_.step_begin(step_id), kNoSeq);
}

void Ledger::begin_rest(Planning planning) {
  planning_ = planning;
  for (Sequence* sequence : grown_) sequence->growth = {};
  grown_.clear();
  fault_ = Status();
  faulty_ = kNoSeq;
  refused_ = nullptr;
  preemptions_ = 0;
  reused_tokens_ = swapped_out_tokens_ = swapped_in_tokens_ = 0;
  time_ns_ = 0;
}

void Ledger::note(Status status, SeqId seq) {
  if (status.ok() || !fault_.ok()) return;
  fault_ = std::move(status);
  faulty_ = seq;
}

Status Ledger::give_back(Sequence& sequence) {
  sequence.computed = sequence.growth.computed_before;
  if (sequence.growth.was_waiting) {
    // What was brought back from the swap pool still lies there.
    const bool swapped = sequence.growth.restored > 0;
    if (swapped && manager_.release(sequence.id, ReleaseHow::swap).ok()) return {};
    return manager_.release(sequence.id, ReleaseHow::recompute);
  }
  return manager_.trim(sequence.id, 0);
}

Status Ledger::settle() {
  Status worst;
  for (Sequence* sequence : grown_) {
    if (!sequence->growth.used) {
      if (Status status = give_back(*sequence); !status.ok()) worst = std::move(status);
    } else {
      const uint32_t used = sequence->growth.used_tokens;
      if (used < sequence->growth.slots) {
        if (Status status = manager_.trim(sequence->id, used); !status.ok())
          worst = std::move(status);
      }
      reused_tokens_ += sequence->growth.reused - sequence->growth.restored;
      swapped_in_tokens_ += sequence->growth.restored;
      if (sequence->growth.was_waiting) table_.admit(*sequence);
    }
    sequence->growth = {};
  }
  grown_.clear();
  return worst;
}

Status Ledger::roll_back() {
  for (Sequence* sequence : grown_) sequence->growth.used = false;
  return settle();
}

bool Ledger::match(SeqId seq, uint32_t more_tokens, KvMatch& out) {
  PluginCall call(clock_, time_ns_);
  const Sequence* sequence = table_.find(seq);
  if (sequence == nullptr) return false;
  const uint64_t wanted = std::min<uint64_t>(uint64_t{sequence->computed_ahead()} + more_tokens,
                                             sequence->request->limit_tokens);
  Status status =
      manager_.match(seq, sequence->wanted_tokens(), static_cast<uint32_t>(wanted), out);
  if (status.ok()) return true;
  note(std::move(status), seq);
  return false;
}

CachedTokens Ledger::cached(SeqId seq) noexcept {
  KvMatch found;
  if (!match(seq, 0, found)) return {};
  return {found.ready, found.promised};
}

// Where a group forks after these tokens, what the forks will take is among it.
uint64_t Ledger::cost(SeqId seq, uint32_t tokens) noexcept {
  KvMatch found;
  if (!match(seq, tokens, found)) return 0;
  const Sequence& sequence = *table_.find(seq);
  const bool all = sequence.computed_ahead() + tokens >= sequence.known_ahead();
  return found.tokens_needed + (all ? sequence.answer->fork_tokens(block_tokens_) : 0);
}

HeldTokens Ledger::held(SeqId seq) noexcept {
  KvMatch found;
  if (!match(seq, 0, found)) return {};
  return {static_cast<uint32_t>(found.tokens_held), static_cast<uint32_t>(found.tokens_exclusive)};
}

// Net of what forks of this plan's prompts will take.
uint64_t Ledger::free_tokens() noexcept {
  PluginCall call(clock_, time_ns_);
  KvUsage usage;
  note(manager_.usage(group_, usage), kNoSeq);
  uint64_t promised = 0;
  for (const Sequence* sequence : grown_) {
    const uint32_t end = sequence->computed_ahead() + sequence->growth.granted;
    if (end >= sequence->known_ahead()) promised += sequence->answer->fork_tokens(block_tokens_);
  }
  return usage.free_tokens - std::min(usage.free_tokens, promised);
}

// Then everything must fit that was accepted: no request may be longer than the memory.
bool Ledger::nobody_else_holds(const Sequence& sequence) const {
  const auto& running = table_.running();
  const bool alone = running.empty() || (running.size() == 1 && running.front() == &sequence);
  const bool others_grown = std::any_of(grown_.begin(), grown_.end(),
                                        [&](const Sequence* grown) { return grown != &sequence; });
  return alone && !others_grown && !sequence.answer->traits.grouped && planning_ == Planning::now;
}

GrowResult Ledger::try_grow(SeqId seq, uint32_t at_least, uint32_t at_most) noexcept {
  PluginCall call(clock_, time_ns_);
  Sequence* sequence = table_.find(seq);
  if (sequence == nullptr || at_least == 0 || at_least > at_most) return {};
  if (sequence->answer->held_back()) return {};
  const GrowResult result = grow(*sequence, at_least, at_most);
  const bool whole = result.granted > 0 && grow_siblings(*sequence);
  refused_ = whole ? nullptr : sequence;
  return whole ? result : GrowResult();
}

GrowResult Ledger::grow(Sequence& sequence, uint32_t at_least, uint32_t at_most) {
  // More than this is never computed in one step, and slots beyond the limit do not exist.
  const uint32_t most =
      sequence.known_ahead() - sequence.computed_ahead() + sequence.offered_drafts;
  if (at_least > most) return {};
  // What the manager brings back from its pool counts first, so it cuts such grants itself.
  const uint32_t alike = tokens_alike(eviction_, sequence.computed_ahead());
  at_least = std::min(at_least, alike);
  at_most = std::min({at_most, most, alike});
  KvRequest request;
  request.seq = sequence.id;
  request.tokens = sequence.wanted_tokens();
  request.known_tokens = sequence.known_ahead();
  request.computed = sequence.computed_ahead();
  request.at_least = at_least;
  request.at_most = at_most;
  KvGrant found;
  Status status = manager_.grow(request, found);
  if (!status.ok()) {
    if (status.code() != StatusCode::out_of_kv) {
      note(std::move(status), sequence.id);
    } else if (nobody_else_holds(sequence)) {
      note(failed("grow has no memory for " + std::to_string(at_least) +
                  " tokens of the only sequence that holds any – expected room for all that a "
                  "request may have – it lost blocks, or keeps those of sequences that ended"),
           sequence.id);
    }
    return {};
  }
  Growth& growth = sequence.growth;
  if (!growth.in_plan) {
    growth = {};
    growth.in_plan = true;
    growth.was_waiting = sequence.state == SequenceState::waiting;
    growth.computed_before = sequence.computed;
    grown_.push_back(&sequence);
  }
  sequence.computed += found.reused;
  growth.reused += found.reused;
  growth.restored += found.restored;
  const uint32_t left =
      sequence.known_ahead() - sequence.computed_ahead() + sequence.offered_drafts;
  // Asked again for less, it still has what it was given.
  growth.slots = std::max(growth.slots, found.granted);
  growth.granted = std::min({found.granted, at_most, left});
  return {growth.granted, found.reused};
}

bool Ledger::release(SeqId seq, ReleaseHow how) noexcept {
  PluginCall call(clock_, time_ns_);
  Sequence* sequence = table_.find(seq);
  const bool can = sequence != nullptr && how <= ReleaseHow::swap &&
                   sequence->state == SequenceState::running && sequence->in_flight == 0;
  if (!can) return false;
  if (sequence->answer->group().size() > 1) return release_group(*sequence, how);
  if (sequence->growth.in_plan) return false;
  if (Status status = manager_.release(seq, how); !status.ok()) {
    const bool refused =
        status.code() == StatusCode::unsupported || status.code() == StatusCode::out_of_kv;
    if (!refused) note(std::move(status), seq);
    return false;
  }
  if (how == ReleaseHow::swap) swapped_out_tokens_ += sequence->computed;
  table_.preempt(*sequence);
  ++preemptions_;
  return true;
}

}  // namespace tenon
