#include "core/engine/step/planner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/quote.h"
#include "core/engine/step/guards/grant_check.h"

namespace tenon {
namespace {

std::string named(SeqId seq) {
  return "sequence " + std::to_string(seq);
}

}  // namespace

void Planner::plan(Step& step, Planning planning) {
  at_fault_ = kNoSeq;
  stall_guard_.begin_plan();
  if (planning == Planning::now) regroup();
  clear_for_one_alone(step, planning);
  if (end_plan(step, ask_scheduler(step, planning))) stall_guard_.watch(plan_, step, planning);
}

// What was granted is kept, or given back where the plan was refused. False: it was.
bool Planner::end_plan(Step& step, const Status& status) {
  PartTimes& times = context_.times;
  times.kv_cache_ns += ledger_.time_ns();
  times.scheduler_ns -= ledger_.time_ns();
  {
    PluginCall call(*context_.parts.clock, times.kv_cache_ns);
    Status settled = status.ok() ? ledger_.settle() : ledger_.roll_back();
    note(step.record);
    if (!status.ok()) {
      plan_failed(status);
      return false;
    }
    failed_plans_ = 0;
    if (!settled.ok()) {
      context_.fault(plugin_fault("kv_cache", context_.parts.kv_cache_name,
                                  "could not take a grant back", settled));
    }
  }
  take_grants(step);
  return true;
}

bool Planner::may_be_seen(const Sequence& sequence) const {
  return !sequence.answer->held_back() && context_.may_run(sequence) &&
         !context_.awaiting_kv.contains(sequence.id);
}

void Planner::look_at(std::span<Sequence* const> running) {
  waiting_.clear();
  running_.clear();
  for (const Sequence* sequence : context_.table.waiting()) {
    if (may_be_seen(*sequence)) waiting_.push_back(view_of(*sequence));
  }
  for (const Sequence* sequence : running) {
    const bool seen = !sequence->ends_for_sure() && may_be_seen(*sequence);
    if (seen) running_.push_back(view_of(*sequence));
  }
  grants_.resize(waiting_.size() + running_.size());
  plan_ = {};
  plan_.grants = grants_;
}

SchedulerView Planner::view_at(const Step& step) {
  SchedulerView view;
  view.step_id = step.id;
  view.now_ns = step.record.start_ns;
  view.limits = context_.parts.limits;
  view.kv_tokens = context_.kv_usage().total_tokens;
  view.last_step = last_step_;
  view.waiting = waiting_;
  view.running = running_;
  return view;
}

Status Planner::ask_scheduler(const Step& step, Planning planning) {
  look_at(context_.table.running());
  ledger_.begin_plan(step.id, planning);
  if (grants_.empty()) return {};
  const SchedulerView view = view_at(step);
  Status planned;
  {
    PluginCall call(*context_.parts.clock, context_.times.scheduler_ns);
    planned = context_.parts.scheduler->plan(view, ledger_, plan_);
  }
  return judge(std::move(planned), 0);
}

Status Planner::judge(Status planned, uint32_t decoding) {
  const EngineParts& parts = context_.parts;
  if (!ledger_.fault().ok()) {
    at_fault_ = ledger_.faulty();
    return with_context("kv_cache " + in_quotes(parts.kv_cache_name), ledger_.fault());
  }
  const bool answered = planned.ok();
  Status refused = answered ? check_plan(decoding) : std::move(planned);
  if (refused.ok()) return {};
  if (parts.plan_refused) parts.plan_refused();
  return with_context(
      "scheduler " + in_quotes(parts.scheduler_name) + (answered ? " broke its contract" : ""),
      refused);
}

// `decoding` sequences have a token each beside the grants.
Status Planner::check_plan(uint32_t decoding) {
  const SchedulerLimits& limits = context_.parts.limits;
  uint64_t tokens = decoding, running = context_.table.staying();
  for (const Grant& grant : granted()) {
    Sequence* sequence = context_.table.find(grant.seq);
    if (sequence == nullptr || sequence->ends_for_sure() || !may_be_seen(*sequence)) {
      return failed("the plan grants " + named(grant.seq) + " – there is no such sequence");
    }
    at_fault_ = grant.seq;
    TENON_RETURN_IF_ERROR(check_grant(grant, *sequence));
    sequence->growth.used = true;
    sequence->growth.used_tokens = grant.tokens + grant.drafts;
    tokens += sequence->growth.used_tokens;
    running += sequence->state == SequenceState::waiting;
  }
  at_fault_ = kNoSeq;
  if (tokens > limits.max_batch_tokens) {
    return failed("the plan has " + std::to_string(tokens) + " tokens – max_batch_tokens is " +
                  std::to_string(limits.max_batch_tokens));
  }
  if (running > limits.max_sequences) {
    return failed("the plan makes " + std::to_string(running) +
                  " sequences run – max_sequences is " + std::to_string(limits.max_sequences));
  }
  return {};
}

void Planner::take_grants(Step& step) {
  for (const Grant& grant : granted()) {
    Sequence& sequence = *context_.table.find(grant.seq);
    Share& share = step.shares.emplace_back();
    share.sequence = &sequence;
    share.base = sequence.computed_ahead();
    share.tokens = grant.tokens;
    share.drafts = grant.drafts;
    if (sequence.record.admitted_ns >= 0) continue;
    sequence.record.admitted_ns = step.record.start_ns;
    sequence.record.reused_tokens = share.base;
  }
}

void Planner::note(StepRecord& record) const {
  record.idle_rows = plan_.idle_rows;
  record.preemptions += ledger_.preemptions();
  record.reused_tokens = static_cast<uint32_t>(ledger_.reused_tokens());
  record.swapped_out_tokens = static_cast<uint32_t>(ledger_.swapped_out_tokens());
  record.swapped_in_tokens = static_cast<uint32_t>(ledger_.swapped_in_tokens());
}

}  // namespace tenon
