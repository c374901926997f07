// One step: its phases in their order, and how a step overlaps with the one before it.
#include "core/base/quote.h"
#include "core/engine/engine.h"

namespace tenon {

Status Engine::step() {
  context_.begin_pass();
  return context_.options.plan_ahead ? step_overlapped() : step_plain();
}

// One step from its plan to its record; docs/data-flow.md lists what it calls, file by file.
Status Engine::step_plain() {
  Step& step = steps_[0];
  begin(step, Planning::now);
  if (steady_steps_.take(step, planner_.last_step())) return record(step);
  if (steady_steps_.begin_beside(step, planner_)) return step_beside(step);
  prepare(step, Planning::now);
  tiering_.watch(step);
  forward_.launch(step);
  results_.mask(step);
  forward_.collect(step);
  results_.sample(step);  // and appends the tokens to what is known
  drafting_.observe(step);
  tiering_.keep(step);
  results_.resolve(step);  // what the KV cache keeps of the step
  observing_.look(step);
  results_.deliver(step);
  steady_steps_.look(step, planner_.nobody_waited());
  return record(step);
}

// The same, where the device computes one step while the next one is planned. What is in flight
// from the pass before is collected; what is planned meanwhile stays in flight.
Status Engine::step_overlapped() {
  Step& step = flying_ != nullptr ? *flying_ : launch_first();
  context_.step_id = step.id;
  Step* next = may_plan_ahead(step) ? &steps_[&step == &steps_[0] ? 1 : 0] : nullptr;
  results_.mask(step);
  if (next != nullptr) plan_ahead(step, *next);
  forward_.collect(step);
  // Also where nothing was planned after it.
  for (const Share& share : step.shares) share.sequence->in_flight = share.sequence->undrawn = 0;
  results_.sample(step);
  drafting_.observe(step);
  flying_ = next != nullptr && launch_ahead(step, *next) ? next : nullptr;
  tiering_.keep(step);
  results_.resolve(step);
  observing_.look(step);
  results_.deliver(step);
  if (next != nullptr && flying_ == nullptr) forward_.done(*next);
  return record(step);
}

// Who came and who left.
void Engine::begin(Step& step, Planning planning) {
  admission_.admit();
  tiering_.before_plan(planning);
  step.begin(++last_id_, context_.parts.clock->now_ns());
  if (planning == Planning::now) context_.step_id = step.id;
}

// Everything else before the device's part.
void Engine::prepare(Step& step, Planning planning) {
  drafting_.offer();
  planner_.plan(step, planning);
  forward_.move(step);
  drafting_.draft(step);
  forward_.assemble(step);
}

Step& Engine::launch_first() {
  Step& step = steps_[0];
  begin(step, Planning::now);
  prepare(step, Planning::now);
  tiering_.watch(step);
  forward_.launch(step);
  return step;
}

Status Engine::record(Step& step) {
  const bool in_flight = flying_ != nullptr;
  progress_guard_.watch(step);
  observing_.note_results();
  context_.sweep(in_flight);
  inbox_.set_busy(in_flight || !context_.table.empty(), in_flight ? 0 : planner_.wake_ns());
  StepRecord& record = step.record;
  record.start_ns = context_.start_ns;
  record.end_ns = context_.parts.clock->now_ns();
  record.times = context_.times;
  record.times.engine_ns = record.end_ns - record.start_ns - record.times.total_ns();
  context_.totals.add(record);
  if (record.rows > 0) {
    const StepCost cost{step.id, record.rows, record.sequences, record.logits_rows,
                        record.end_ns - record.start_ns};
    planner_.measured(cost);
    tiering_.measured(cost);
    drafting_.tell_cost(cost, record);
  }
  if (context_.options.on_step) context_.options.on_step(record);
  observing_.tell(record);
  if (!context_.options.check_kv) return {};
  Status status = context_.parts.kv_cache->check();
  if (status.ok()) return status;
  return with_context("kv_cache " + in_quotes(context_.parts.kv_cache_name) + " after step " +
                          std::to_string(step.id),
                      status);
}

}  // namespace tenon
