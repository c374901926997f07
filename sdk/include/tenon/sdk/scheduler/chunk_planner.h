// Steps of a bounded number of tokens: those that decode first, prompts cut to fill the rest.
//
// After Sarathi-Serve (Agrawal et al., OSDI 2024). Who waits is taken from a queue, so that
// schedulers which differ only in whom they admit share all else.
#pragma once

#include <tenon/sdk/scheduler/admission.h>
#include <tenon/sdk/scheduler/plan_builder.h>
#include <tenon/sdk/scheduler/step_budget.h>

#include <algorithm>
#include <cstdint>

namespace tenon::sdk {

class ChunkPlanner {
 public:
  ChunkPlanner(const HostServices& host, const SchedulingOptions& options)
      : options_(options),
        plan_(host, options),
        admission_(options),
        budget_(options.target_step) {}

  // `queue` is as Admission takes it. `granted`: as PlanBuilder::begin.
  template <typename Queue>
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out, Queue& queue,
            uint32_t granted = 0) {
    budget_.observe(view.last_step);
    plan_.begin(view, ledger, out, granted);
    plan_.limit_budget(step_tokens());
    let_in_overdue();
    plan_.serve_waiting_span();
    const bool could_admit = !view.waiting.empty() && plan_.rows_left();
    const bool prompts = could_admit || plan_.partial_prompts() > 0;
    const bool alone = prompts && options_.step_tokens == 0 &&
                       budget_.ask_for_decoding_alone(view.step_id, plan_.decoding(),
                                                      plan_.limits().max_batch_tokens);
    plan_.advance_decodes(prompts && !alone);
    if (alone && !plan_.empty()) return;
    const auto piece = [this](uint32_t tokens) { return this->piece(tokens); };
    plan_.continue_prompts(piece, true);
    admission_.admit(plan_, queue, piece);
  }

  bool decodes_first(const SchedulerView& view, uint32_t decoding) const {
    return plan_.decodes_first(view, decoding);
  }
  // Of a step that needed no plan (<tenon/extensions/steady_plans.h>).
  void observe(const StepCost& cost) { budget_.observe(cost); }

 private:
  uint32_t step_tokens() const {
    if (options_.step_tokens == 0) {
      return budget_.rows(plan_.decoding(), plan_.limits().max_batch_tokens);
    }
    // A token for everyone that decodes and one of a prompt, so that neither ever stands still.
    return std::max(static_cast<uint32_t>(options_.step_tokens), plan_.decoding() + 1);
  }

  uint32_t piece(uint32_t tokens) const {
    const auto threshold = static_cast<uint32_t>(options_.long_prompt_threshold);
    if (threshold > 0) tokens = std::min(tokens, threshold);
    return std::min(tokens, plan_.budget());
  }

  // Room for the next token of everyone else stays.
  void let_in_overdue() {
    const uint32_t others = plan_.decoding();
    admission_.let_in_overdue(plan_, [this, others](uint32_t tokens) {
      const uint32_t budget = plan_.budget();
      return std::min(piece(tokens), budget > others ? budget - others : 1);
    });
  }

  const SchedulingOptions& options_;
  PlanBuilder plan_;
  Admission admission_;
  StepBudget budget_;
};

}  // namespace tenon::sdk
