// Which of the waiting sequences may run: shared by all schedulers.
//
// In the order of a queue; one that does not fit yet is not overtaken. A prompt needs room for all
// of it, also when only a piece is computed now, in addition to the rest of prompts that were
// begun. One exception to the order: a prompt whose beginning another sequence is computing right
// now waits for it, so that a shared prefix is computed once, and later ones may go first. And one
// exception to patience: an interrupted sequence is let in again after a while.
#pragma once

#include <tenon/sdk/scheduler/plan_builder.h>

#include <algorithm>
#include <cstdint>

namespace tenon::sdk {

class Admission {
 public:
  explicit Admission(const SchedulingOptions& options) : options_(options) {}

  // First in a plan: who was interrupted in the middle of its answer and could not come back for
  // long is let in, at the expense of those after it.
  template <typename Piece>
  void let_in_overdue(PlanBuilder& plan, Piece piece) {
    rescued_seq_ = kNoSeq;
    const SequenceView* first = first_interrupted(plan);
    if (first == nullptr || first->seq != overdue_seq_) overdue_plans_ = 0;
    overdue_seq_ = first == nullptr ? kNoSeq : first->seq;
    if (first == nullptr || ++overdue_plans_ <= kOverdue) return;
    const uint32_t left = plan.left(*first);
    if (!plan.make_room(*first, left)) return;
    const uint32_t ready = std::min(left - 1, plan.ledger().cached(first->seq).ready);
    const uint32_t tokens = plan.whole_span(*first, ready, piece(left - ready));
    if (plan.admit(*first, tokens)) rescued_seq_ = first->seq;
  }

  // Admits from `queue` (`next()`: the next waiting sequence, or null); `piece(tokens left)` says
  // how many to compute in this step, 0 = the step is full.
  template <typename Queue, typename Piece>
  void admit(PlanBuilder& plan, Queue& queue, Piece piece) {
    if (plan.short_of_memory() || plan.span_waits()) return;
    if (plan.view().waiting.empty()) held_steps_ = 0;
    if (plan.view().waiting.empty() || plan.budget() == 0 || !plan.rows_left()) return;
    if (held_back(plan)) return;
    uint64_t reserve = reserve_for_running(plan);
    uint32_t deferred = 0;
    const uint32_t before = plan.admitted();
    while (const SequenceView* waiting = queue.next()) {
      if (waiting->seq == rescued_seq_) continue;
      if (!plan.has_slots(*waiting)) break;
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
  static constexpr uint32_t kOverdue = 64;  // plans without room for who was interrupted
  static constexpr size_t kLooks = 256;     // at those that wait, for interrupted ones

  static const SequenceView* first_interrupted(const PlanBuilder& plan);

  // If few wait and many run, each of the former would stop all of the latter for a step.
  bool held_back(const PlanBuilder& plan);

  bool defer(const PlanBuilder& plan, const SequenceView& waiting, uint32_t deferred);

  template <typename Piece>
  bool admit_one(PlanBuilder& plan, const SequenceView& waiting, uint32_t ready, uint64_t& reserve,
                 Piece& piece) const {
    KvLedger& ledger = plan.ledger();
    const uint32_t left = plan.left(waiting);
    const bool alone = plan.running() == 0 && plan.empty();
    if (!alone && ledger.cost(waiting.seq, left) + reserve > ledger.free_tokens()) return false;
    // At least the last token is always left to compute.
    const uint32_t behind_prefix = std::max(left - std::min(left, ready), 1u);
    const uint32_t tokens = plan.whole_span(waiting, ready, piece(behind_prefix));
    const bool cut = tokens < behind_prefix;
    const auto most_partial = static_cast<uint64_t>(options_.max_partial_prompts);
    if (cut && most_partial > 0 && plan.partial_prompts() >= most_partial) return false;
    if (!plan.admit(waiting, tokens)) return false;
    if (cut) reserve += ledger.cost(waiting.seq, left);
    return true;
  }

  uint64_t reserve_for_running(const PlanBuilder& plan);

  // In whole blocks, rounded down: a manager that has only few large blocks keeps none of them.
  uint64_t watermark_tokens(const PlanBuilder& plan);

  const SchedulingOptions& options_;
  uint64_t block_tokens_ = 0;  // the most that one token ever cost
  int64_t held_steps_ = 0;
  SeqId overdue_seq_ = kNoSeq;  // the first that was interrupted …
  uint32_t overdue_plans_ = 0;  // … and for how long it could not come back
  SeqId rescued_seq_ = kNoSeq;  // let in by this plan, ahead of the queue
  SeqId patient_seq_ = kNoSeq;  // the first that a promise keeps waiting …
  uint32_t patient_plans_ = 0;  // … and for how long
};

}  // namespace tenon::sdk
