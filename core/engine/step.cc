// One step: the phases in their order, and those that concern all sequences together.
#include <algorithm>
#include <numeric>
#include <string>

#include "core/engine/engine.h"

namespace tenon {

Status Engine::step() {
  begin_step();
  admit();
  offer();
  plan();
  move();
  draft();
  assemble();
  forward();  // launch and collect
  sample();
  resolve();
  deliver();
  return record();
}

void Engine::begin_step() {
  record_ = {};
  record_.step_id = ++step_id_;
  record_.start_ns = parts_.clock->now_ns();
  in_step_.clear();
  forks_.clear();
}

void Engine::assemble() {
  if (in_step_.empty()) return;
  Result<BatchView> built = batch_.build(step_id_, in_step_, *parts_.kv_cache);
  if (!built.ok()) {
    step_failed(in_step_, "kv_cache '" + parts_.kv_cache_name +
                              "' has no table: " + std::string(built.status().message()));
    return;
  }
  batch_view_ = *built;
  record_.sequences = static_cast<uint32_t>(in_step_.size());
  record_.rows = batch_view_.rows;
  record_.logits_rows = static_cast<uint32_t>(batch_view_.logits_rows.size());
  record_.running = static_cast<uint32_t>(table_.running().size());
  record_.waiting = static_cast<uint32_t>(table_.waiting().size());
  const KvUsage usage = parts_.kv_cache->usage();
  record_.kv_reserved_tokens = usage.reserved_tokens;
  record_.kv_used_tokens = usage.used_tokens + batch_view_.rows;
}

// Block copies and swaps, before anything of the step that needs them is computed. They are carried
// out in the order in which they were emitted, so what a step that never ran has left behind does
// no harm.
void Engine::move() {
  if (in_step_.empty()) return;
  Stopwatch watch(*parts_.clock, record_.times.executor_ns);
  moves_.resize(kMovesAtOnce);
  KvMovesOut out{moves_, 0};
  do {
    out.count = 0;
    Status status = parts_.kv_cache->take_moves(out);
    record_.moves += out.count;
    if (status.ok() && out.count > 0) {
      status = apply_moves(std::span(moves_).first(out.count));
    }
    if (!status.ok()) {
      // Whose K/V is now missing cannot be told: what runs fails, what was swapped out is computed
      // again.
      for (const Sequence* waiting : table_.waiting()) {
        (void)parts_.kv_cache->release(waiting->id, KVCacheManager::Release::recompute);
      }
      step_failed(table_.running(), "copying K/V blocks failed: " + std::string(status.message()));
      return;
    }
  } while (out.count == moves_.size());
}

// Each of a pipeline's models has its own groups, and its executor their bytes. Moves stay in order
// within a model; between models none depends on another.
Status Engine::apply_moves(std::span<KvMove> moves) {
  if (parts_.draft_runner == nullptr) return parts_.executor->apply(moves);
  TENON_RETURN_IF_ERROR(parts_.draft_runner->apply(moves));
  const auto end = std::remove_if(moves.begin(), moves.end(), [this](const KvMove& move) {
    return parts_.draft_runner->owns(move);
  });
  return parts_.executor->apply({moves.begin(), end});
}

void Engine::forward() {
  if (!in_step_.empty()) {
    Stopwatch watch(*parts_.clock, record_.times.executor_ns);
    if (Status status = launch_and_collect(); !status.ok()) {
      step_failed(in_step_, "executor '" + std::string(parts_.executor->name()) +
                                "' failed: " + std::string(status.message()));
    }
  }
  parts_.kv_cache->step_done(step_id_);
}

Status Engine::launch_and_collect() {
  TENON_RETURN_IF_ERROR(parts_.executor->launch(batch_view_));
  TENON_ASSIGN_OR_RETURN(output_, parts_.executor->collect(step_id_));
  const bool whole = output_.step_id == step_id_ && output_.logits_rows == record_.logits_rows &&
                     output_.vocabulary == parts_.shape->vocabulary &&
                     (output_.logits != nullptr || output_.logits_rows == 0);
  if (whole) return {};
  return internal("step " + std::to_string(output_.step_id) + " came back with " +
                  std::to_string(output_.logits_rows) + " rows of " +
                  std::to_string(output_.vocabulary) + " logits – expected step " +
                  std::to_string(step_id_) + ", " + std::to_string(record_.logits_rows) + " of " +
                  std::to_string(parts_.shape->vocabulary));
}

void Engine::step_failed(std::vector<Sequence*> sequences, const std::string& message) {
  ++totals_.forward_faults;
  fail_sequences(sequences, message);
  in_step_.clear();
  record_.rows = 0;
}

void Engine::resolve() {
  {
    Stopwatch watch(*parts_.clock, record_.times.kv_cache_ns);
    for (Sequence* sequence : in_step_) {
      if (sequence->state == SequenceState::ended) continue;
      if (Status status = resolve_sequence(*sequence); !status.ok()) {
        fail_request(*sequence->request,
                     "kv_cache '" + parts_.kv_cache_name +
                         "' could not resolve a step: " + std::string(status.message()));
      }
    }
  }
  for (const Fork& fork : forks_) {
    if (fork.child->state != SequenceState::ended) {
      begin_child_kv(*fork.child, *fork.parent, fork.parent->computed);
    }
  }
  advance_beams();
}

// Known tokens that were computed and accepted drafts stay; slots of other drafts are given back.
Status Engine::resolve_sequence(Sequence& sequence) {
  const StepShare& share = sequence.share;
  // A beam that is ahead of its group computes its last token again.
  const bool ahead =
      sequence.beam != nullptr && share.logits_rows > 0 && !sequence.request->beams->ready;
  kept_.resize(share.tokens + share.accepted - (ahead ? 1 : 0));
  std::iota(kept_.begin(), kept_.end(), 0u);
  sequence.computed = share.base + static_cast<uint32_t>(kept_.size());
  return parts_.kv_cache->resolve(sequence.id, sequence.known_tokens(), share.base, kept_,
                                  sequence.computed);
}

// A fork shares the K/V of its parent's first `tokens` tokens and runs, where there is room for it
// to run; else it waits and computes the prompt again.
void Engine::begin_child_kv(Sequence& child, const Sequence& parent, uint32_t tokens) {
  const bool room = table_.running().size() < parts_.limits.max_sequences;
  Status status;
  if (room && parent.state == SequenceState::running) {
    status = begin_kv(child, &parent, tokens);
    if (status.ok()) {
      table_.admit(child);
      child.computed = tokens;
      child.record.admitted_ns = record_.start_ns;
    }
  }
  if (!child.in_kv_cache && (status.ok() || status.code() == StatusCode::out_of_kv)) {
    status = begin_kv(child, nullptr);
  }
  if (!status.ok()) {
    fail_request(*child.request, std::string(status.message()));
    return;
  }
  announce(child);
}

Status Engine::record() {
  table_.sweep();
  for (RequestId id : ended_requests_) requests_.erase(id);
  ended_requests_.clear();
  inbox_.set_busy(!table_.empty());
  record_.end_ns = parts_.clock->now_ns();
  record_.times.engine_ns = record_.end_ns - record_.start_ns - record_.times.total_ns();
  totals_.add(record_);
  if (record_.rows > 0) {
    last_step_ = {step_id_, record_.rows, record_.sequences, record_.logits_rows,
                  record_.end_ns - record_.start_ns};
  }
  tell_drafter_cost();
  if (options_.on_step) options_.on_step(record_);
  if (!options_.check_kv) return {};
  Status status = parts_.kv_cache->check();
  if (status.ok()) return status;
  return with_context(
      "kv_cache '" + parts_.kv_cache_name + "' after step " + std::to_string(step_id_), status);
}

}  // namespace tenon
