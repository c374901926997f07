// A plan in the making: it keeps to the step's limits, serves running sequences in a policy's
// order, and makes memory by preempting.
//
// Who may be preempted for whom: only sequences that stand behind in the policy's order and were
// not granted in this plan. So the first of the running ones is never taken from, ends in a bounded
// number of steps, and then another one is first.
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

  // First in every plan. What is given is used until the plan is made.
  void begin(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    view_ = &view;
    ledger_ = &ledger;
    out_ = &out;
    limits_ = lowered(view.limits, options_);
    budget_ = limits_.max_batch_tokens;
    running_ = view.running.size();
    idle_ = slots_ = admitted_ = partial_ = decoding_ = 0;
    preempted_ = false;
    standing_.clear();
    for (const SequenceView& sequence : view.running) {
      slots_ += sequence.samples;
      // What it is granted next depends on a step that is still under way.
      const bool waits = sequence.in_flight_tokens > 0;
      standing_.push_back(waits ? Standing::kept : Standing::idle);
      if (waits) continue;
      ++idle_;
      (left(sequence) > 1 ? partial_ : decoding_) += 1;
    }
    sort_by_policy(options_.policy, view.running, order_);
  }

  Policy policy() const { return options_.policy; }
  const SchedulerView& view() const { return *view_; }
  KvLedger& ledger() const { return *ledger_; }
  const SchedulerLimits& limits() const { return limits_; }
  // Tokens that this step may still compute.
  uint32_t budget() const { return budget_; }
  // Computes no more than `tokens` in this step. Before the first grant.
  void limit_budget(uint32_t tokens) { budget_ = std::min(budget_, tokens); }
  bool empty() const { return out_->grant_count == 0; }
  // Running sequences that were not preempted.
  size_t running() const { return running_; }
  uint32_t admitted() const { return admitted_; }
  // Whether memory was made for someone that runs.
  bool preempted() const { return preempted_; }
  bool rows_left() const { return slots_ < limits_.max_sequences; }
  // Sequences whose prompt is computed in part when this plan was run.
  uint32_t partial_prompts() const { return partial_; }
  // Running sequences that only their next token is missing of, when the plan began.
  uint32_t decoding() const { return decoding_; }

  static uint32_t left(const SequenceView& sequence) {
    return sequence.known_tokens - sequence.computed_tokens;
  }

  // How many of `tokens` to compute now when prompts are not cut: all of them; none when they only
  // have to wait for a step with more room; a piece, alone in its step, when no step has room for
  // all.
  uint32_t whole_or_piece(uint32_t tokens) const {
    if (tokens <= budget_) return tokens;
    const bool too_long = tokens > limits_.max_batch_tokens;
    return too_long && empty() ? budget_ : 0;
  }

  // Whether a waiting sequence and the samples that it will become have rows.
  bool has_slots(const SequenceView& waiting) const {
    return slots_ == 0 || uint64_t{slots_} + waiting.samples <= limits_.max_sequences;
  }

  // Makes a waiting sequence run. False: no memory or no budget, nothing changed.
  bool admit(const SequenceView& waiting, uint32_t tokens) {
    bool whole = false;
    if (!grant(waiting, tokens, 0, whole)) return false;
    ++admitted_;
    slots_ += waiting.samples;
    partial_ += whole ? 0 : 1;
    return true;
  }

  // Preempts running sequences that stand behind `waiting` in the policy's order, the last first,
  // until it has a row and `tokens` of memory. Before the first grant.
  bool make_room(const SequenceView& waiting, uint32_t tokens) {
    const PolicyKey key = policy_key(options_.policy, waiting, 0);
    const auto fits = [&] {
      return has_slots(waiting) && ledger_->cost(waiting.seq, tokens) <= ledger_->free_tokens();
    };
    for (size_t place = order_.size(); place-- > 0 && key < order_[place];) {
      if (fits()) return true;
      if (standing(place) == Standing::idle) preempt(place);
    }
    return fits();
  }

  // Everything that decodes gets its next token, and drafts as far as the budget goes: each running
  // sequence is sure of a token before anyone gets drafts, and while prompts wait to be computed,
  // these leave them half of the rest. Memory is made by preempting.
  void advance_decodes(bool prompts_wait) {
    const uint64_t sure = std::min<uint64_t>(budget_, idle_);
    uint64_t drafts = (budget_ - sure) / (prompts_wait ? 2 : 1);
    for (size_t place = 0; place < order_.size() && budget_ > 0; ++place) {
      const SequenceView& sequence = at(place);
      if (left(sequence) > 1 || standing(place) != Standing::idle) continue;
      const auto offered =
          static_cast<uint32_t>(std::min<uint64_t>(sequence.offered_drafts, drafts));
      const uint32_t before = budget_;
      if (grant_or_preempt(place, 1, offered)) drafts -= before - budget_ - 1;
    }
  }

  // Prompts that were begun get `piece(tokens left)`. With `may_preempt`, memory is made for them.
  template <typename Piece>
  void continue_prompts(Piece piece, bool may_preempt) {
    for (size_t place = 0; place < order_.size() && partial_ > 0 && budget_ > 0; ++place) {
      const uint32_t tokens = left(at(place));
      if (tokens == 1 || standing(place) != Standing::idle) continue;
      if (may_preempt) {
        grant_or_preempt(place, piece(tokens), 0);
      } else {
        grant_running(place, piece(tokens), 0);
      }
    }
  }

 private:
  enum class Standing : uint8_t { idle, granted, preempted, kept };
  static constexpr size_t kLooks = 64;       // victims whose cost is compared
  static constexpr uint32_t kPatience = 16;  // plans that the first one may be stuck

  const SequenceView& at(size_t place) const { return view_->running[order_[place].index]; }
  Standing& standing(size_t place) { return standing_[order_[place].index]; }

  // `tokens`, and up to `drafts` behind them where memory allows.
  bool grant(const SequenceView& sequence, uint32_t tokens, uint32_t drafts, bool& whole) {
    if (tokens == 0 || uint64_t{tokens} + drafts > budget_) return false;
    const GrowResult grown = ledger_->try_grow(sequence.seq, tokens, tokens + drafts);
    if (grown.granted == 0) return false;
    // A prefix that appeared meanwhile leaves less to compute.
    const uint32_t most = left(sequence) - std::min(left(sequence), grown.reused);
    const uint32_t taken = std::min({tokens, grown.granted, most});
    whole = taken == most;
    const uint32_t behind = whole ? std::min(drafts, grown.granted - taken) : 0;
    budget_ -= taken + behind;
    return out_->push({sequence.seq, taken, behind});
  }

  bool grant_running(size_t place, uint32_t tokens, uint32_t drafts) {
    bool whole = false;
    if (!grant(at(place), tokens, drafts, whole)) return false;
    leave_idle(place, Standing::granted);
    if (whole && left(at(place)) > 1) --partial_;
    return true;
  }

  // As grant_running, but those behind are preempted until there is memory, at last this one itself
  // unless it is the first.
  bool grant_or_preempt(size_t place, uint32_t tokens, uint32_t drafts) {
    while (!grant_running(place, tokens, drafts)) {
      if (tokens == 0 || uint64_t{tokens} + drafts > budget_) return false;
      const size_t victim = choose_victim(place, tokens);
      if (victim == place) {
        if (place > 0 || stuck_for_long(at(place).seq)) preempted_ |= preempt(place);
        return false;
      }
      preempted_ |= preempt(victim);
    }
    if (place == 0) stuck_plans_ = 0;
    return true;
  }

  // The first one keeps its memory while it gets no more; not for ever, though, should that be what
  // it takes.
  bool stuck_for_long(SeqId seq) {
    if (stuck_seq_ != seq) stuck_plans_ = 0;
    stuck_seq_ = seq;
    return ++stuck_plans_ % kPatience == 0;
  }

  void leave_idle(size_t place, Standing now) {
    standing(place) = now;
    --idle_;
  }

  bool preempt(size_t place) {
    const SequenceView& victim = at(place);
    bool gone = false;
    if (options_.preempt == Preempt::swap) {
      gone = ledger_->release(victim.seq, ReleaseHow::swap);
      if (!gone && host_.count != nullptr) host_.count(host_.context, "swap_refused", 1);
    }
    gone = gone || ledger_->release(victim.seq, ReleaseHow::recompute);
    leave_idle(place, gone ? Standing::preempted : Standing::kept);
    if (!gone) return false;
    --running_;
    slots_ -= std::min(slots_, victim.samples);
    if (left(victim) > 1) --partial_;
    return true;
  }

  // Whom to preempt so that the one at `place` gets `tokens`; itself when nobody is left.
  size_t choose_victim(size_t place, uint32_t tokens) {
    if (victim_ == Victim::least_cost) return cheapest_victim(place, tokens);
    size_t chosen = place;
    for (size_t other = place + 1; other < order_.size(); ++other) {
      if (standing(other) != Standing::idle) continue;
      const bool better = victim_ == Victim::last
                              ? chosen == place || order_[other].index > order_[chosen].index
                              : !before_by_priority(at(other), at(chosen));
      if (better) chosen = other;
    }
    return chosen;
  }

  static bool before_by_priority(const SequenceView& a, const SequenceView& b) {
    return policy_key(Policy::priority, a, 0) < policy_key(Policy::priority, b, 0);
  }

  // Of those who free enough, the one with the least to compute again; where nobody frees enough,
  // the one that frees most for what it costs. Looks at the last kLooks in the order.
  size_t cheapest_victim(size_t place, uint32_t tokens) {
    const uint64_t cost = ledger_->cost(at(place).seq, tokens);
    const uint64_t needed = cost - std::min(cost, ledger_->free_tokens());
    size_t chosen = place;
    bool enough = false;
    double best = 0.0;
    size_t looks = 0;
    for (size_t other = order_.size(); other-- > place + 1 && looks < kLooks;) {
      if (standing(other) != Standing::idle) continue;
      ++looks;
      const uint64_t freed = ledger_->held(at(other).seq).exclusive;
      const double again = std::max(at(other).computed_tokens, 1u);
      const bool frees_enough = freed >= needed;
      const double value = frees_enough ? -again : static_cast<double>(freed) / again;
      const bool better = chosen == place || (frees_enough == enough ? value > best : frees_enough);
      if (!better) continue;
      chosen = other;
      enough = frees_enough;
      best = value;
    }
    return chosen;
  }

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
  size_t running_ = 0;
  size_t idle_ = 0;     // running, neither granted nor preempted
  uint32_t slots_ = 0;  // rows of what runs, samples to come included
  uint32_t admitted_ = 0;
  uint32_t partial_ = 0;
  uint32_t decoding_ = 0;
  bool preempted_ = false;
  SeqId stuck_seq_ = kNoSeq;
  uint32_t stuck_plans_ = 0;
};

}  // namespace tenon::sdk
