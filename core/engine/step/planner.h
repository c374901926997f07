// Plan: who computes how much in this step, and in which memory.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/engine/memory/ledger.h"
#include "core/engine/step/context.h"
#include "core/engine/step/guards/stall_guard.h"
#include "core/engine/step/step.h"

namespace tenon {

class Planner {
 public:
  explicit Planner(EngineContext& context)
      : context_(context),
        ledger_(*context.parts.kv_cache, context.parts.eviction, context.parts.shape->ledger_group,
                context.block_tokens(), context.table, *context.parts.clock),
        stall_guard_(context) {}

  // Asks the scheduler and turns what it granted into the step's shares. A plan that fails, or
  // breaks the scheduler's contract, is taken back whole.
  void plan(Step& step, Planning planning);
  // Where `decoding` sequences decode (SteadySteps) and nobody else runs but those of `others`:
  // whether the scheduler grants the former a token first, so that plan_rest() may follow.
  bool decodes_first(const Step& step, std::span<Sequence* const> others, uint32_t decoding);
  // The plan that decodes_first() looked at; the KV manager's step has begun, and those who decode
  // have what they need.
  void plan_rest(Step& step, uint32_t decoding);
  // When a plan that is empty on purpose is to be followed by the next; else 0.
  int64_t wake_ns() const { return stall_guard_.wake_ns(); }
  // What the latest step cost that computed something, for the next plan.
  void measured(const StepCost& cost) { last_step_ = cost; }
  const StepCost& last_step() const { return last_step_; }
  // When the latest plan was made.
  bool nobody_waited() const { return waiting_.empty(); }

 private:
  void regroup();
  bool may_be_seen(const Sequence& sequence) const;
  void clear_for_one_alone(Step& step, Planning planning);
  void look_at(std::span<Sequence* const> running);
  SchedulerView view_at(const Step& step);
  Status ask_scheduler(const Step& step, Planning planning);
  Status ask_for_rest(const Step& step, uint32_t decoding);
  Status judge(Status planned, uint32_t decoding);
  bool end_plan(Step& step, const Status& status);
  Status check_plan(uint32_t decoding);
  void take_grants(Step& step);
  void note(StepRecord& record) const;
  void plan_failed(const Status& status);
  std::span<const Grant> granted() const { return std::span(grants_).first(plan_.grant_count); }

  EngineContext& context_;
  Ledger ledger_;
  StallGuard stall_guard_;
  std::vector<Sequence*> grouped_;  // that run
  std::vector<SequenceView> waiting_, running_;
  std::vector<Grant> grants_;  // room for one a sequence
  PlanOut plan_;
  SeqId at_fault_ = kNoSeq;  // where one sequence is, when a plan fails
  StepCost last_step_;
  uint32_t failed_plans_ = 0;  // in a row
};

}  // namespace tenon
