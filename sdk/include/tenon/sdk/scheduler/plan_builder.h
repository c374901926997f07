// A plan in the making: it keeps to the step's limits, serves running sequences in a policy's
// order, and makes memory by preempting.
//
// Preemption: only sequences may be preempted that come later in the policy's order, were not
// granted in this plan, and are not in flight. So the first of the running ones is never taken
// from, ends in a bounded number of steps, and then another one is first. A ledger may refuse a
// release: the sequence then goes on as if nobody had asked.
//
// Sequences in flight are served like all others: their view shows them as they will be when the
// step that computes them is done.
//
// One PlanBuilder lives as long as its scheduler; after warm-up it does not allocate.
#pragma once

#include <tenon/host.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/scheduler/options.h>
#include <tenon/sdk/scheduler/policy.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::sdk {

class PlanBuilder {
 public:
  PlanBuilder(const HostServices& host, const SchedulingOptions& options)
      : host_(host), options_(options) {
    victim_ = options.victim;
    if (victim_ == Victim::automatic) {
      victim_ = options.policy == Policy::priority ? Victim::lowest_priority : Victim::last;
    }
  }

  // First in every plan. What is given is used until the plan is made. `granted`: so many further
  // sequences run, which the view lacks, and have their next token already
  // (<tenon/extensions/decodes_first.h>).
  void begin(const SchedulerView& view, KvLedger& ledger, PlanOut& out, uint32_t granted = 0);

  Policy policy() const { return options_.policy; }
  const SchedulerView& view() const { return *view_; }
  KvLedger& ledger() const { return *ledger_; }
  const SchedulerLimits& limits() const { return limits_; }
  // Tokens that this step may still compute.
  uint32_t budget() const { return budget_; }
  // Computes no more than `tokens` in this step. Before the first grant.
  void limit_budget(uint32_t tokens) { budget_ = std::min(budget_, tokens); }
  bool empty() const { return granted_ == 0 && out_->grant_count == 0; }
  // Running sequences that were not preempted.
  size_t running() const { return running_; }
  uint32_t admitted() const { return admitted_; }
  // Whether someone that runs needed memory which others had to give, or will have to once they are
  // no longer in flight. Nobody is let in then.
  bool short_of_memory() const { return short_of_memory_; }
  // Whether tokens that must be computed together found no room in the step. Likewise.
  bool span_waits() const { return span_seq_ != kNoSeq; }
  bool rows_left() const { return slots_ < limits_.max_sequences; }
  // Sequences whose prompt is computed in part when this plan was run.
  uint32_t partial_prompts() const { return partial_; }
  // Whether a plan of this view gives those that decode their next token before all else: nobody is
  // let in at the expense of others, and nothing must be computed together. Between plans.
  bool decodes_first(const SchedulerView& view, uint32_t decoding) const;
  // Running sequences that only their next token is missing of, when the plan began.
  uint32_t decoding() const { return decoding_; }

  static uint32_t left(const SequenceView& sequence) {
    return sequence.known_tokens - sequence.computed_tokens;
  }

  // How many of `tokens` to compute now when prompts are not cut: all of them; none when they only
  // have to wait for a step with more room; a piece, alone in its step, when no step has room for
  // all.
  uint32_t whole_or_piece(uint32_t tokens) const;

  // Whether a waiting sequence and the samples that it will become have rows.
  bool has_slots(const SequenceView& waiting) const {
    return slots_ == 0 || uint64_t{slots_} + waiting.samples <= limits_.max_sequences;
  }

  // How many tokens of a sequence to compute where `tokens` are wanted and `reused` come out of the
  // cache: more, where more of the next ones must be computed together
  // (SequenceView::whole_tokens), or none, where the step has no room for these. They may exceed
  // the scheduler's own budget, but not the pipeline's.
  uint32_t whole_span(const SequenceView& sequence, uint32_t reused, uint32_t tokens);

  // Tokens that the last plan had no room for all together come first. Before the first grant.
  void serve_waiting_span();

  // Makes a waiting sequence run. False: no memory or no budget, nothing changed.
  bool admit(const SequenceView& waiting, uint32_t tokens);

  // Preempts running sequences that come after `waiting` in the policy's order, the last first,
  // until it has a row and `tokens` of memory. Before the first grant.
  bool make_room(const SequenceView& waiting, uint32_t tokens);

  // Everything that decodes gets its next token, and drafts as far as the budget goes: each running
  // sequence is sure of a token before anyone gets drafts, and while prompts wait to be computed,
  // these leave them half of the rest. Memory is made by preempting.
  void advance_decodes(bool prompts_wait);

  // Prompts that were begun get `piece(tokens left)`. With `may_preempt`, memory is made for them.
  template <typename Piece>
  void continue_prompts(Piece piece, bool may_preempt) {
    for (size_t place = 0; place < order_.size() && partial_ > 0 && budget_ > 0; ++place) {
      const uint32_t tokens = left(at(place));
      if (tokens <= 1 || !unserved(place)) continue;
      const uint32_t taken = whole_span(at(place), 0, piece(tokens));
      if (may_preempt) {
        grant_or_preempt(place, taken, 0);
      } else {
        grant_running(place, taken, 0);
      }
    }
  }

 private:
  // idle: not granted yet; held: neither, and its memory cannot be taken.
  enum class Standing : uint8_t { idle, held, granted, preempted };
  static constexpr size_t kLooks = 64;       // victims whose cost is compared
  static constexpr uint32_t kPatience = 16;  // plans that the first one may be stuck

  const SequenceView& at(size_t place) const { return view_->running[order_[place].index]; }
  Standing& standing(size_t place) { return standing_[order_[place].index]; }
  bool unserved(size_t place) {
    return standing(place) == Standing::idle || standing(place) == Standing::held;
  }
  // Tokens that must be computed together, of those that are not reused.
  static uint32_t span_of(const SequenceView& sequence, uint32_t reused) {
    const uint32_t span = std::min(sequence.whole_tokens, left(sequence));
    return span - std::min(span, reused);
  }

  // `tokens`, and up to `drafts` after them where memory allows.
  bool grant(const SequenceView& sequence, uint32_t tokens, uint32_t drafts, bool& whole);

  bool fits(const SequenceView& sequence, uint32_t tokens, uint32_t drafts) const;

  bool grant_running(size_t place, uint32_t tokens, uint32_t drafts);

  // As grant_running, but later ones are preempted until there is memory, at last this one itself
  // unless it is the first.
  bool grant_or_preempt(size_t place, uint32_t tokens, uint32_t drafts);

  // The first one keeps its memory while it gets no more; not for ever, though, should that be what
  // it takes.
  bool stuck_for_long(SeqId seq);

  void leave(size_t place, Standing now);

  bool preempt(size_t place);
  void count_out(size_t place);

  // Whom to preempt so that the one at `place` gets `tokens`; itself when nobody is left.
  size_t choose_victim(size_t place, uint32_t tokens);

  static bool before_by_priority(const SequenceView& a, const SequenceView& b);

  // Of those who free enough, the one with the least to compute again; where nobody frees enough,
  // the one that frees most for what it costs. Looks at the last kLooks in the order.
  size_t cheapest_victim(size_t place, uint32_t tokens);

  const HostServices& host_;
  const SchedulingOptions& options_;
  Victim victim_;
  const SchedulerView* view_ = nullptr;
  KvLedger* ledger_ = nullptr;
  PlanOut* out_ = nullptr;
  SchedulerLimits limits_;
  std::vector<PolicyKey> order_;    // of the running sequences
  std::vector<Standing> standing_;  // [view.running]
  uint32_t budget_ = 0;
  uint32_t room_ = 0;  // tokens that the pipeline still has room for in this step
  size_t running_ = 0;
  size_t unserved_ = 0;  // running, neither granted nor preempted
  uint32_t slots_ = 0;   // rows of what runs, samples to come included
  uint32_t admitted_ = 0;
  uint32_t partial_ = 0;
  uint32_t decoding_ = 0;
  uint32_t granted_ = 0;    // of them, before the plan began
  bool in_flight_ = false;  // someone is
  bool short_of_memory_ = false;
  SeqId span_seq_ = kNoSeq;    // the first whose span found no room in this plan …
  SeqId waited_seq_ = kNoSeq;  // … and in the one before
  SeqId stuck_seq_ = kNoSeq;
  uint32_t stuck_plans_ = 0;
};

}  // namespace tenon::sdk
