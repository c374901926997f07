// A scheduler whose answers are checked. Grants themselves are held against the ledger by whoever
// asked for the plan, which alone knows it.
#pragma once

#include <tenon/extensions/decodes_first.h>
#include <tenon/extensions/steady_plans.h>
#include <tenon/scheduler.h>

#include <string>

#include "core/contract/contract.h"

namespace tenon {

// For messages: whole seconds from 10 s on, else whole milliseconds.
std::string approximate_duration(int64_t ns);

class CheckedScheduler final : public Scheduler {
 public:
  // What a scheduler may put off on purpose while sequences wait for it: long enough to fill a
  // batch, and short enough that nobody takes it for a fault.
  static constexpr int64_t kLongestWaitNs = int64_t{60} * 1'000'000'000;

  // `longest_wait_ns`: how far ahead of now it may wish to be asked again.
  CheckedScheduler(Scheduler& plugin, const std::string& name,
                   CallChecks checks = CallChecks::usual, int64_t longest_wait_ns = kLongestWaitNs);

  Status on_event(const SequenceEvent& event) noexcept override;
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override;
  // The plugin's, which it offers as an extension.
  void pass(const SteadyPlans& offered, const StepCost& last_step) {
    CheckedCall call(pass_, checks_);
    offered.pass(offered.self, last_step);
  }
  // Likewise. What it grants is checked as a plan is.
  bool decodes_first(const DecodesFirst& offered, const SchedulerView& view, uint32_t decoding) {
    CheckedCall call(first_, checks_);
    return offered.decodes_first(offered.self, view, decoding);
  }
  double rank(const DecodesFirst& offered, const SequenceView& sequence) {
    CheckedCall call(first_, checks_);
    return offered.rank(offered.self, sequence);
  }
  Status plan_rest(const DecodesFirst& offered, const SchedulerView& view, uint32_t decoding,
                   KvLedger& ledger, PlanOut& out);

 private:
  template <typename Plan>
  Status checked_plan(CallName name, const SchedulerView& view, PlanOut& out, Plan plan);
  Status check_wish(const PlanOut& out, int64_t now_ns) const;

  Scheduler& plugin_;
  const CallChecks checks_;
  const int64_t longest_wait_ns_;
  const CallName on_event_, plan_, pass_, first_, rest_;
  GuardedRoom<Grant> grants_;
  ShownCopy shown_;
};

}  // namespace tenon
