// Plan: who computes how much in this step, and in which memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/memory/ledger.h"
#include "core/engine/step/context.h"
#include "core/engine/step/step.h"

namespace tenon {

class Planner {
 public:
  explicit Planner(EngineContext& context)
      : context_(context),
        ledger_(*context.parts.kv_cache, context.parts.eviction, context.parts.shape->ledger_group,
                context.block_tokens(), context.table, *context.parts.clock) {}

  // Asks the scheduler and turns what it granted into the step's shares. A plan that fails, or
  // breaks the scheduler's contract, is taken back whole.
  void plan(Step& step, Planning planning);
  // Where the plan is empty on purpose, when the scheduler is to be asked again: when it wishes, or
  // sooner where something is to be said of it. Else 0.
  int64_t wake_ns() const { return plan_.grant_count == 0 ? wake_ns_ : 0; }
  // What the latest step cost that computed something, for the next plan.
  void measured(const StepCost& cost) { last_step_ = cost; }

 private:
  bool may_be_seen(const Sequence& sequence) const;
  void clear_for_one_alone(Step& step, Planning planning);
  Status ask_scheduler(const Step& step, Planning planning);
  Status check_plan();
  Status check_grant(const Grant& grant, const Sequence& sequence) const;
  void take_grants(Step& step);
  void note(StepRecord& record) const;
  void plan_failed(const Status& status);
  void watch_for_stall(const Step& step, Planning planning);
  void wait_on_purpose(int64_t now_ns);
  void tell_of_wait(int64_t waited_ns, int64_t now_ns) const;
  void stalled(const std::string& how_long);
  std::string how_many_wait() const;
  std::span<const Grant> granted() const { return std::span(grants_).first(plan_.grant_count); }

  EngineContext& context_;
  Ledger ledger_;
  std::vector<SequenceView> waiting_, running_;
  std::vector<Grant> grants_;  // room for one a sequence
  PlanOut plan_;
  SeqId at_fault_ = kNoSeq;  // where one sequence is, when a plan fails
  StepCost last_step_;
  uint32_t failed_plans_ = 0;                // in a row
  uint32_t empty_plans_ = 0;                 // likewise, with work at hand
  std::optional<int64_t> waiting_since_ns_;  // where it planned nothing on purpose ever since
  int64_t tell_ns_ = 0;                      // … how long until the next word about it
  int64_t wake_ns_ = 0;
};

}  // namespace tenon
