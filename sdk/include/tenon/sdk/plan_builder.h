// What schedulers have in common: a plan in the making that keeps to the step's limits, and
// preemption of the latest admitted sequence when memory is short.
#pragma once

#include <tenon/scheduler.h>

#include <algorithm>
#include <cstdint>

namespace tenon::sdk {

class PlanBuilder {
 public:
  PlanBuilder(const SchedulerView& view, KvLedger& ledger, PlanOut& out)
      : view_(view),
        ledger_(ledger),
        out_(out),
        budget_(view.limits.max_batch_tokens),
        running_(view.running.size()) {
    for (const SequenceView& sequence : view.running) slots_ += sequence.samples;
  }

  // Tokens that this step may still compute.
  uint32_t budget() const { return budget_; }
  bool empty() const { return out_.grant_count == 0; }
  // Running sequences that were not preempted: view.running[0 … running()-1].
  size_t running() const { return running_; }
  uint32_t admitted() const { return admitted_; }

  static uint32_t left(const SequenceView& sequence) {
    return sequence.known_tokens - sequence.computed_tokens;
  }
  // Of a waiting sequence, what no cached prefix gives.
  uint32_t left_behind_prefix(const SequenceView& waiting) const {
    const uint32_t ready = ledger_.cached(waiting.seq).ready;
    return std::max(left(waiting) - std::min(left(waiting), ready), 1u);
  }

  // How many of `tokens` to compute now when prompts are not cut: all of them; none when they only
  // have to wait for a step with more room; a piece, alone in its step, when no step has room for
  // all.
  uint32_t whole_or_piece(uint32_t tokens) const {
    if (tokens <= budget_) return tokens;
    const bool too_long = tokens > view_.limits.max_batch_tokens;
    return too_long && empty() ? budget_ : 0;
  }

  // Whether a waiting sequence and the samples that it will become have rows.
  bool has_slots(const SequenceView& waiting, uint32_t max_sequences) const {
    return slots_ == 0 || uint64_t{slots_} + waiting.samples <= max_sequences;
  }

  // Grants `tokens`, and up to `drafts` behind them where memory allows. False: no memory, nothing
  // changed.
  bool grant(const SequenceView& sequence, uint32_t tokens, uint32_t drafts = 0) {
    if (tokens == 0 || uint64_t{tokens} + drafts > budget_) return false;
    const GrowResult grown = ledger_.try_grow(sequence.seq, tokens, tokens + drafts);
    if (grown.granted == 0) return false;
    // A prefix that appeared meanwhile leaves less to compute.
    const uint32_t most = left(sequence) - std::min(left(sequence), grown.reused);
    const uint32_t taken = std::min({tokens, grown.granted, most});
    const uint32_t behind = taken == most ? std::min(drafts, grown.granted - taken) : 0;
    budget_ -= taken + behind;
    return out_.push({sequence.seq, taken, behind});
  }

  bool admit(const SequenceView& waiting, uint32_t tokens) {
    if (!grant(waiting, tokens)) return false;
    ++admitted_;
    slots_ += waiting.samples;
    return true;
  }

  // For running[index]: as `grant`, but the latest admitted sequences are preempted until there is
  // memory, at last this one itself. Call in rising order of index, while index < running().
  bool grant_or_preempt(size_t index, uint32_t tokens, uint32_t drafts = 0) {
    while (!grant(view_.running[index], tokens, drafts)) {
      if (tokens == 0 || uint64_t{tokens} + drafts > budget_) return false;
      if (!preempt_latest() || running_ == index) return false;
    }
    return true;
  }

  // Everything that runs gets its next token, drafts as far as the budget goes; memory is made by
  // preempting. Prompts that are not finished yet get `piece(left)` tokens.
  template <typename Piece>
  void advance_running(Piece piece) {
    for (size_t i = 0; i < running_; ++i) {
      const SequenceView& sequence = view_.running[i];
      if (left(sequence) > 1) {
        grant_or_preempt(i, piece(left(sequence)));
        continue;
      }
      if (budget_ == 0) return;
      // Each sequence behind this one is sure of a token before this one gets drafts.
      const uint64_t behind = running_ - i - 1;
      const uint64_t spare = budget_ > 1 + behind ? budget_ - 1 - behind : 0;
      grant_or_preempt(i, 1,
                       static_cast<uint32_t>(std::min<uint64_t>(sequence.offered_drafts, spare)));
    }
  }

 private:
  bool preempt_latest() {
    if (running_ == 0) return false;
    const SequenceView& victim = view_.running[running_ - 1];
    if (!ledger_.release(victim.seq, ReleaseHow::recompute)) return false;
    --running_;
    slots_ -= std::min(slots_, victim.samples);
    return true;
  }

  const SchedulerView& view_;
  KvLedger& ledger_;
  PlanOut& out_;
  uint32_t budget_;
  size_t running_;
  uint32_t slots_ = 0;  // rows of what runs, samples to come included
  uint32_t admitted_ = 0;
};

}  // namespace tenon::sdk
