// One step: its phases in their order, and how a step overlaps with the one before it.
#include <algorithm>

#include "core/base/quote.h"
#include "core/engine/engine.h"
#include "core/engine/step/eviction.h"

namespace tenon {

Status Engine::step() {
  context_.begin_pass();
  if (flying_ == nullptr) {
    flying_ = &steps_[0];
    prepare(*flying_, Planning::now);
    forward_.launch(*flying_);
  }
  Step& step = *flying_;
  context_.step_id = step.id;
  Step* next = may_plan_ahead(step) ? &steps_[&step == &steps_[0] ? 1 : 0] : nullptr;
  grammar_masks_.fill(step);
  if (next != nullptr) plan_ahead(step, *next);
  forward_.collect(step);
  // Also where nothing was planned behind it.
  for (const Share& share : step.shares) share.sequence->in_flight = share.sequence->undrawn = 0;
  grammar_masks_.fail(step);
  sampling_.sample(step);
  drafting_.observe(step);
  finishing_.gather(step);
  flying_ = next != nullptr && launch_ahead(step, *next) ? next : nullptr;
  finishing_.resolve(step);
  observing_.look(step);
  beam_groups_.advance(step);
  finishing_.deliver(step);
  if (next != nullptr && flying_ == nullptr) forward_.done(*next);
  return record(step);
}

// Everything in front of the device.
void Engine::prepare(Step& step, Planning planning) {
  step.begin(++last_id_, context_.parts.clock->now_ns());
  if (planning == Planning::now) context_.step_id = step.id;
  admission_.admit();
  if (planning == Planning::now) beam_groups_.rejoin();
  drafting_.offer();
  planner_.plan(step, planning);
  forward_.move(step);
  drafting_.draft(step);
  forward_.assemble(step);
}

// A step can be planned while the device computes the one before it where all that is open about
// that one is which token each of its sequences draws. A drafter must see the token, a second model
// shares the device.
bool Engine::may_plan_ahead(const Step& step) const {
  const EngineParts& parts = context_.parts;
  if (!context_.options.plan_ahead || step.empty() || parts.draft_runner != nullptr) return false;
  if (context_.alone) return false;
  // What a step of a diffusion leaves open are tokens anywhere in the answer.
  if (parts.mask_token != kNoToken) return false;
  // What goes where a manager evicts by weight follows from what this step's rows see.
  const auto evicts_behind = [&parts](const Share& share) {
    return share.rows() == tokens_alike(parts.eviction, share.base);
  };
  if (parts.scores != nullptr && std::ranges::any_of(step.shares, evicts_behind)) return false;
  const auto& running = context_.table.running();
  if (std::any_of(running.begin(), running.end(), [](auto* s) { return s->beam != nullptr; })) {
    return false;
  }
  return std::none_of(step.shares.begin(), step.shares.end(), [](const Share& share) {
    const RequestState& request = *share.sequence->request;
    const bool forks = request.forked_samples < request.request.samples;
    return share.drafts > 0 || (share.logits_rows > 0 && (forks || share.sequence->in_drafter));
  });
}

void Engine::plan_ahead(const Step& step, Step& next) {
  for (const Share& share : step.shares) {
    share.sequence->in_flight = share.tokens;
    share.sequence->undrawn = share.logits_rows > 0 ? 1 : 0;
  }
  prepare(next, Planning::ahead);
  forward_.stage(next);
}

// Those that `step` has ended have no part in `next`; of the others every token is known now.
// Returns whether anything was launched.
bool Engine::launch_ahead(const Step& step, Step& next) {
  for (const Share& share : step.shares) {
    if (share.sequence->state != SequenceState::ended) finishing_.look_for_end(step, share);
  }
  const bool failed = step.empty();
  const size_t ended = std::erase_if(next.shares, [](const Share& share) {
    return share.sequence->state == SequenceState::ended || share.sequence->ending;
  });
  if (failed) {
    take_back(next);
  } else if (ended > 0) {
    forward_.assemble(next);
    forward_.stage(next);
  } else {
    next.batch_builder.fill_in_tokens(next.shares);
  }
  if (next.empty()) {
    // What its plan has preempted or moved still counts.
    next.record.rows = 0;
    context_.totals.add(next.record);
    return false;
  }
  for (const Share& share : next.shares) share.sequence->in_flight = share.rows();
  forward_.launch(next);
  return true;
}

// Nothing of a step is run that was planned on what another would leave, and that one has failed.
void Engine::take_back(Step& step) {
  for (const Share& share : step.shares) {
    const Status status = context_.parts.kv_cache->trim(share.sequence->id, 0);
    if (status.ok()) continue;
    context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                "could not take a grant back", status));
  }
  step.shares.clear();
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
