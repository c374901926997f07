// Offer, plan, draft: who computes how much in this step.
#include <algorithm>
#include <string>
#include <utility>

#include "core/engine/engine.h"

namespace tenon {
namespace {

std::string named(SeqId seq) {
  return "sequence " + std::to_string(seq);
}

DraftRequest draft_request(const Sequence& sequence, uint32_t tokens) {
  const uint64_t seed = sequence.request->request.sampling.seed;
  return {.seq = sequence.id,
          .history = sequence.known_tokens(),
          .max_tokens = tokens,
          .key = {seed, sequence.sample, sequence.known}};
}

}  // namespace

// Asks the drafter how many tokens it could propose for sequences that have begun to answer.
void Engine::offer() {
  if (parts_.drafter == nullptr) return;
  Stopwatch watch(*parts_.clock, record_.times.drafter_ns);
  draft_requests_.clear();
  drafting_.clear();
  const auto ask = [this](const std::vector<Sequence*>& sequences) {
    for (Sequence* sequence : sequences) {
      sequence->offered_drafts = 0;
      // A step that accepts all drafts also yields one more token; beyond the limit none is wanted.
      const uint32_t left = sequence->request->limit_tokens - sequence->known;
      const uint32_t most = std::min(options_.max_draft_tokens, left == 0 ? 0 : left - 1);
      if (sequence->generated() == 0 || most == 0 || !sequence->in_drafter) continue;
      draft_requests_.push_back(draft_request(*sequence, most));
      drafting_.push_back(sequence);
    }
  };
  ask(table_.waiting());
  ask(table_.running());
  if (drafting_.empty()) return;
  offered_.assign(drafting_.size(), 0);
  if (Status status = parts_.drafter->offer(draft_requests_, offered_); !status.ok()) {
    fault("drafter '" + parts_.drafter_name +
          "' could not offer: " + std::string(status.message()));
    return;
  }
  for (size_t i = 0; i < drafting_.size(); ++i) {
    drafting_[i]->offered_drafts = std::min(offered_[i], draft_requests_[i].max_tokens);
  }
}

void Engine::plan() {
  SeqId named_seq = kNoSeq;
  Status status = run_plan(named_seq);
  record_.preemptions = ledger_.preemptions();
  record_.idle_rows = plan_out_.idle_rows;
  record_.times.kv_cache_ns += ledger_.time_ns();
  record_.times.scheduler_ns -= ledger_.time_ns();
  Stopwatch watch(*parts_.clock, record_.times.kv_cache_ns);
  Status settled = status.ok() ? ledger_.settle() : ledger_.roll_back();
  record_.reused_tokens = static_cast<uint32_t>(ledger_.reused_tokens());
  record_.swapped_out_tokens = static_cast<uint32_t>(ledger_.swapped_out_tokens());
  record_.swapped_in_tokens = static_cast<uint32_t>(ledger_.swapped_in_tokens());
  if (!status.ok()) {
    plan_failed(status, named_seq);
    return;
  }
  failed_plans_ = 0;
  if (!settled.ok()) {
    fault("kv_cache '" + parts_.kv_cache_name +
          "' could not take a grant back: " + std::string(settled.message()));
  }
  for (const Grant& grant : std::span(grants_).first(plan_out_.grant_count)) {
    Sequence& sequence = *table_.find(grant.seq);
    sequence.share = {};
    sequence.share.base = sequence.computed;
    sequence.share.tokens = grant.tokens;
    sequence.share.drafts = grant.drafts;
    if (sequence.record.admitted_ns < 0) {
      sequence.record.admitted_ns = record_.start_ns;
      sequence.record.reused_tokens = sequence.computed;
    }
    in_step_.push_back(&sequence);
  }
  watch_for_stall();
}

// Runs the scheduler and checks what it decided. `named` becomes the sequence at fault, if one is.
Status Engine::run_plan(SeqId& named) {
  waiting_views_.clear();
  running_views_.clear();
  for (const Sequence* sequence : table_.waiting()) waiting_views_.push_back(view_of(*sequence));
  for (const Sequence* sequence : table_.running()) running_views_.push_back(view_of(*sequence));
  grants_.resize(waiting_views_.size() + running_views_.size());
  plan_out_ = {};
  plan_out_.grants = grants_;
  ledger_.begin_plan(step_id_);
  if (grants_.empty()) return {};

  SchedulerView view;
  view.step_id = step_id_;
  view.now_ns = record_.start_ns;
  view.limits = parts_.limits;
  view.kv_tokens = parts_.kv_cache->usage().total_tokens;
  view.last_step = last_step_;
  view.waiting = waiting_views_;
  view.running = running_views_;
  Status planned;
  {
    Stopwatch watch(*parts_.clock, record_.times.scheduler_ns);
    planned = parts_.scheduler->plan(view, ledger_, plan_out_);
  }
  if (!ledger_.fault().ok()) {
    named = ledger_.faulty();
    return with_context("kv_cache '" + parts_.kv_cache_name + "'", ledger_.fault());
  }
  if (!planned.ok()) return with_context("scheduler '" + parts_.scheduler_name + "'", planned);
  if (Status checked = check_plan(named); !checked.ok()) {
    return with_context("scheduler '" + parts_.scheduler_name + "' broke its contract", checked);
  }
  return {};
}

Status Engine::check_plan(SeqId& named_seq) {
  if (plan_out_.grant_count > grants_.size()) {
    return failed("the plan has " + std::to_string(plan_out_.grant_count) +
                  " grants – there was room for " + std::to_string(grants_.size()));
  }
  uint64_t total = 0, admitted = 0;
  for (const Grant& grant : std::span(grants_).first(plan_out_.grant_count)) {
    Sequence* sequence = table_.find(grant.seq);
    if (sequence == nullptr) {
      return failed("the plan grants " + named(grant.seq) + " – there is no such sequence");
    }
    named_seq = grant.seq;
    const uint32_t left = sequence->known - sequence->computed;
    if (sequence->plan.used) return failed("the plan grants " + named(grant.seq) + " twice");
    if (grant.tokens == 0 || grant.tokens > left) {
      return failed("the plan grants " + named(grant.seq) + " " + std::to_string(grant.tokens) +
                    " tokens – it has " + std::to_string(left) + " to compute");
    }
    if (grant.drafts > 0 && (grant.tokens < left || grant.drafts > sequence->offered_drafts)) {
      return failed("the plan grants " + named(grant.seq) + " " + std::to_string(grant.drafts) +
                    " draft slots behind " + std::to_string(grant.tokens) + " of " +
                    std::to_string(left) + " tokens – " + std::to_string(sequence->offered_drafts) +
                    " were offered, behind all known tokens");
    }
    const uint64_t taken = uint64_t{grant.tokens} + grant.drafts;
    if (taken > sequence->plan.granted) {
      return failed("the plan grants " + named(grant.seq) + " " + std::to_string(taken) +
                    " tokens – the ledger granted " + std::to_string(sequence->plan.granted));
    }
    sequence->plan.used = true;
    total += taken;
    admitted += sequence->state == SequenceState::waiting;
  }
  named_seq = kNoSeq;
  if (total > parts_.limits.max_batch_tokens) {
    return failed("the plan has " + std::to_string(total) + " tokens – max_batch_tokens is " +
                  std::to_string(parts_.limits.max_batch_tokens));
  }
  if (table_.running().size() + admitted > parts_.limits.max_sequences) {
    return failed("the plan makes " + std::to_string(table_.running().size() + admitted) +
                  " sequences run – max_sequences is " +
                  std::to_string(parts_.limits.max_sequences));
  }
  return {};
}

// Nothing of the plan is run. One that keeps failing would never end: then requests pay for it,
// the one at fault if it is known, else all.
void Engine::plan_failed(const Status& status, SeqId named_seq) {
  ++totals_.plan_faults;
  ++failed_plans_;
  const std::string message(status.message());
  fault(message);
  if (failed_plans_ < options_.plan_retries) return;
  failed_plans_ = 0;
  if (Sequence* sequence = table_.find(named_seq); sequence != nullptr) {
    fail_request(*sequence->request, message);
  } else {
    fail_sequences(table_.all(), message);
  }
}

void Engine::watch_for_stall() {
  if (!in_step_.empty() || table_.empty()) {
    empty_plans_ = 0;
    return;
  }
  if (++empty_plans_ < options_.stall_steps) return;
  empty_plans_ = 0;
  ++totals_.plan_faults;
  fail_sequences(table_.all(),
                 "scheduler '" + parts_.scheduler_name + "' planned nothing in " +
                     std::to_string(options_.stall_steps) + " steps in a row – " +
                     std::to_string(table_.waiting().size()) + " sequences wait and " +
                     std::to_string(table_.running().size()) + " run – use another scheduler");
}

// Makes room behind the known tokens of everyone who was granted draft slots, and asks for as many.
void Engine::begin_drafts() {
  draft_requests_.clear();
  draft_outs_.clear();
  drafting_.clear();
  uint64_t slots = 0;
  for (Sequence* sequence : in_step_) {
    const uint32_t granted = std::exchange(sequence->share.drafts, 0);
    if (granted == 0) continue;
    slots += granted;
    sequence->tokens.resize(sequence->known + granted, kNoToken);
    draft_requests_.push_back(draft_request(*sequence, granted));
    draft_outs_.push_back(
        {.tokens = std::span(sequence->tokens).subspan(sequence->known, granted)});
    drafting_.push_back(sequence);
  }
  if (!parts_.verify_by_rejection) return;
  const uint64_t vocabulary = parts_.shape->vocabulary;
  if (draft_probs_.size() < slots * vocabulary) draft_probs_.resize(slots * vocabulary);
  float* probs = draft_probs_.data();
  for (DraftOut& out : draft_outs_) {
    out.probs = probs;
    probs += out.tokens.size() * vocabulary;
  }
}

// Fills the granted draft slots, right behind the known tokens. Fewer than granted is fine.
void Engine::draft() {
  if (in_step_.empty() || parts_.drafter == nullptr) return;
  Stopwatch watch(*parts_.clock, record_.times.drafter_ns);
  Status status;
  if (parts_.draft_runner != nullptr) status = parts_.draft_runner->begin_step(in_step_);
  begin_drafts();
  if (drafting_.empty()) return;
  if (status.ok()) status = parts_.drafter->draft(draft_requests_, draft_outs_);
  if (!status.ok()) {
    fault("drafter '" + parts_.drafter_name +
          "' could not draft: " + std::string(status.message()));
  }
  for (size_t i = 0; i < drafting_.size(); ++i) {
    take_drafts(*drafting_[i], draft_outs_[i], status.ok() ? draft_requests_[i].max_tokens : 0);
  }
}

void Engine::take_drafts(Sequence& sequence, const DraftOut& out, uint32_t most) {
  uint32_t count = std::min(out.count, most);
  for (uint32_t d = 0; d < count; ++d) {
    const TokenId token = sequence.tokens[sequence.known + d];
    if (token < 0 || static_cast<uint32_t>(token) >= parts_.shape->vocabulary) count = d;
  }
  sequence.share.drafts = count;
  sequence.share.draft_probs = out.has_probs ? out.probs : nullptr;
  sequence.tokens.resize(sequence.known + count);
  sequence.record.drafted_tokens += count;
  record_.draft_rows += count;
}

}  // namespace tenon
