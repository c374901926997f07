// A scheduler whose answers are checked. Grants themselves are held against the ledger by whoever
// asked for the plan, which alone knows it.
#pragma once

#include <tenon/scheduler.h>

#include <string>

#include "core/contract/contract.h"

namespace tenon {

class CheckedScheduler final : public Scheduler {
 public:
  CheckedScheduler(Scheduler& plugin, const std::string& name,
                   CallChecks checks = CallChecks::usual);

  Status on_event(const SequenceEvent& event) noexcept override;
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override;

 private:
  Scheduler& plugin_;
  const CallChecks checks_;
  const CallName on_event_, plan_;
  GuardedRoom<Grant> grants_;
  ShownCopy shown_;
};

}  // namespace tenon
