// What of planning a plain step does not see: groups of beams, plans of which only the rest is
// asked for (SteadySteps), one sequence that runs alone, and plans that fail.
#include <string>
#include <utility>

#include "core/engine/step/guards/alone.h"
#include "core/engine/step/planner.h"

namespace tenon {

// Groups that lost their memory may change who runs.
void Planner::regroup() {
  grouped_.clear();
  for (Sequence* sequence : context_.table.running()) {
    if (sequence->answer->traits.grouped) grouped_.push_back(sequence);
  }
  for (Sequence* sequence : grouped_) sequence->answer->before_plan();
}

bool Planner::decodes_first(const Step& step, std::span<Sequence* const> others,
                            uint32_t decoding) {
  look_at(others);
  PluginCall call(*context_.parts.clock, context_.times.scheduler_ns);
  return context_.contracts.scheduler->decodes_first(*context_.parts.decodes_first, view_at(step),
                                                     decoding);
}

void Planner::plan_rest(Step& step, uint32_t decoding) {
  at_fault_ = kNoSeq;
  stall_guard_.begin_plan();
  (void)end_plan(step, ask_for_rest(step, decoding));
  stall_guard_.got_on();
}

Status Planner::ask_for_rest(const Step& step, uint32_t decoding) {
  ledger_.begin_rest(Planning::now);
  const SchedulerView view = view_at(step);
  Status planned;
  {
    PluginCall call(*context_.parts.clock, context_.times.scheduler_ns);
    planned = context_.contracts.scheduler->plan_rest(*context_.parts.decodes_first, view, decoding,
                                                      ledger_, plan_);
  }
  return judge(std::move(planned), decoding);
}

// Where one runs alone it finds everything free.
void Planner::clear_for_one_alone(Step& step, Planning planning) {
  end_running_alone(context_);
  if (!context_.alone || planning == Planning::ahead) return;
  const Status status = release_all_others(context_, step.record.preemptions);
  if (status.ok()) return;
  context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                              "could not release a sequence", status));
}

// Nothing of the plan is run. One that keeps failing would never end: then requests pay for it,
// the one at fault if it is known, else all.
void Planner::plan_failed(const Status& status) {
  ++context_.totals.plan_faults;
  ++failed_plans_;
  plan_ = {};
  const std::string message(status.message());
  context_.fault(message);
  if (failed_plans_ < context_.options.plan_retries) return;
  failed_plans_ = 0;
  if (Sequence* sequence = context_.table.find(at_fault_); sequence != nullptr) {
    context_.fail_request(*sequence->request, message);
  } else {
    context_.fail_sequences(context_.table.all(), message);
  }
}

}  // namespace tenon
