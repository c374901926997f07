// Who of those that wait may run: shared by all schedulers.
//
// In the order of a queue; one that does not fit yet is not overtaken. A prompt needs room for all
// of it, also when only a piece is computed now, beside what prompts that were begun still need.
// One exception to the order: a prompt whose beginning another sequence is computing right now
// waits for it, so that a shared prefix is computed once, and those behind may go first.
#pragma once

#include <tenon/sdk/plan_builder.h>

#include <algorithm>
#include <cstdint>

namespace tenon::sdk {

class Admission {
 public:
  explicit Admission(const SchedulingOptions& options) : options_(options) {}

  // Admits from `queue` (`next()`: the next waiting sequence, or null); `piece(tokens left)` says
  // how many to compute in this step, 0 = the step is full.
  template <typename Queue, typename Piece>
  void admit(PlanBuilder& plan, Queue& queue, Piece piece) {
    if (plan.view().waiting.empty()) held_steps_ = 0;
    if (plan.view().waiting.empty() || plan.budget() == 0 || held_back(plan)) return;
    uint64_t reserve = reserve_for_running(plan);
    uint32_t deferred = 0;
    const uint32_t before = plan.admitted();
    while (const SequenceView* waiting = queue.next()) {
      const CachedTokens cached = plan.ledger().cached(waiting->seq);
      if (cached.promised > 0 && defer(plan, *waiting, deferred)) {
        if (++deferred > plan.limits().max_sequences) break;
        continue;
      }
      if (!admit_one(plan, *waiting, cached.ready, reserve, piece)) break;
    }
    if (deferred == 0) patient_seq_ = kNoSeq;
    if (plan.admitted() > before) held_steps_ = 0;
  }

 private:
  // A promise that is not kept for so many plans is no longer waited for.
  static constexpr uint32_t kPatience = 256;

  // Of few that wait beside many that run, each would stop all of these for a step.
  bool held_back(const PlanBuilder& plan) {
    const double wanted = options_.waiting_served_ratio * static_cast<double>(plan.running());
    if (static_cast<double>(plan.view().waiting.size()) >= wanted) return false;
    if (held_steps_ >= options_.max_hold_steps) return false;
    ++held_steps_;
    return true;
  }

  bool defer(const PlanBuilder& plan, const SequenceView& waiting, uint32_t deferred) {
    const bool alone = plan.empty() && plan.running() == 0;
    if (alone) return false;
    if (deferred > 0) return true;
    if (patient_seq_ != waiting.seq) patient_plans_ = 0;
    patient_seq_ = waiting.seq;
    return ++patient_plans_ <= kPatience;
  }

  template <typename Piece>
  bool admit_one(PlanBuilder& plan, const SequenceView& waiting, uint32_t ready, uint64_t& reserve,
                 Piece& piece) const {
    if (!plan.has_slots(waiting)) return false;
    KvLedger& ledger = plan.ledger();
    const uint32_t left = plan.left(waiting);
    const bool alone = plan.running() == 0 && plan.empty();
    if (!alone && ledger.cost(waiting.seq, left) + reserve > ledger.free_tokens()) return false;
    // At least the last token is always left to compute.
    const uint32_t behind_prefix = std::max(left - std::min(left, ready), 1u);
    const uint32_t tokens = piece(behind_prefix);
    const bool cut = tokens < behind_prefix;
    const auto most_partial = static_cast<uint64_t>(options_.max_partial_prompts);
    if (cut && most_partial > 0 && plan.partial_prompts() >= most_partial) return false;
    if (!plan.admit(waiting, tokens)) return false;
    if (cut) reserve += ledger.cost(waiting.seq, left);
    return true;
  }

  uint64_t reserve_for_running(const PlanBuilder& plan) {
    const SchedulerView& view = plan.view();
    uint64_t reserve = watermark_tokens(plan);
    if (plan.partial_prompts() == 0) return reserve;
    for (const SequenceView& sequence : view.running) {
      const uint32_t left = plan.left(sequence);
      if (left > 1) reserve += plan.ledger().cost(sequence.seq, left);
    }
    return reserve;
  }

  // In whole blocks, rounded down: a manager that has only few large blocks keeps none of them.
  uint64_t watermark_tokens(const PlanBuilder& plan) {
    const SchedulerView& view = plan.view();
    block_tokens_ = std::max(block_tokens_, plan.ledger().cost(view.waiting.front().seq, 1));
    const auto tokens =
        static_cast<uint64_t>(options_.watermark * static_cast<double>(view.kv_tokens));
    return block_tokens_ == 0 ? tokens : tokens / block_tokens_ * block_tokens_;
  }

  const SchedulingOptions& options_;
  uint64_t block_tokens_ = 0;  // the most that one token ever cost
  int64_t held_steps_ = 0;
  SeqId patient_seq_ = kNoSeq;  // the first that a promise keeps waiting …
  uint32_t patient_plans_ = 0;  // … and for how long
};

}  // namespace tenon::sdk
