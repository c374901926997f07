// One step: its phases in their order, and those in which the executor takes part.
#include <algorithm>
#include <string>

#include "core/engine/engine.h"

namespace tenon {

Status Engine::step() {
  Step& step = step_;
  begin(step);
  admission_.admit();
  beam_groups_.rejoin();
  drafting_.offer();
  planner_.plan(step);
  move(step);
  drafting_.draft(step);
  assemble(step);
  forward(step);  // launch and collect
  sampling_.sample(step);
  finishing_.resolve(step);
  beam_groups_.advance(step);
  finishing_.deliver(step);
  return record(step);
}

void Engine::begin(Step& step) {
  context_.begin_pass(step.id + 1);
  step.begin(context_.step_id, context_.start_ns);
}

// Block copies and swaps, before anything of the step that needs them is computed. They are carried
// out in the order in which they were emitted, so what a step that never ran has left behind does
// no harm.
void Engine::move(Step& step) {
  if (step.empty()) return;
  KVCacheManager& kv_cache = *context_.parts.kv_cache;
  Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
  moves_.resize(kMovesAtOnce);
  KvMovesOut out{moves_, 0};
  do {
    out.count = 0;
    Status status = kv_cache.take_moves(out);
    step.record.moves += out.count;
    if (status.ok() && out.count > 0) status = apply(std::span(moves_).first(out.count));
    if (!status.ok()) {
      // Whose K/V is now missing cannot be told: what runs fails, what was swapped out is computed
      // again.
      for (const Sequence* waiting : context_.table.waiting()) {
        (void)kv_cache.release(waiting->id, ReleaseHow::recompute);
      }
      fail(step, context_.table.running(),
           "copying K/V blocks failed: " + std::string(status.message()));
      return;
    }
  } while (out.count == moves_.size());
}

// Each of a pipeline's models has its own groups, and its executor their bytes. Moves stay in order
// within a model; between models none depends on another.
Status Engine::apply(std::span<KvMove> moves) {
  const EngineParts& parts = context_.parts;
  if (parts.draft_runner == nullptr) return parts.executor->apply(moves);
  TENON_RETURN_IF_ERROR(parts.draft_runner->apply(moves));
  const auto end = std::remove_if(moves.begin(), moves.end(), [&](const KvMove& move) {
    return parts.draft_runner->owns(move);
  });
  return parts.executor->apply({moves.begin(), end});
}

void Engine::assemble(Step& step) {
  if (step.empty()) return;
  const EngineParts& parts = context_.parts;
  Result<BatchView> built = step.batch_builder.build(step.id, step.shares, *parts.kv_cache);
  if (!built.ok()) {
    fail(step, sequences_of(step.shares),
         plugin_fault("kv_cache", parts.kv_cache_name, "has no table", built.status()));
    return;
  }
  step.batch = *built;
  StepRecord& record = step.record;
  record.sequences = static_cast<uint32_t>(step.shares.size());
  record.rows = step.batch.rows;
  record.logits_rows = static_cast<uint32_t>(step.batch.logits_rows.size());
  record.running = static_cast<uint32_t>(context_.table.running().size());
  record.waiting = static_cast<uint32_t>(context_.table.waiting().size());
  const KvUsage usage = context_.kv_usage();
  record.kv_reserved_tokens = usage.reserved_tokens;
  record.kv_used_tokens = usage.used_tokens + step.batch.rows;
}

void Engine::forward(Step& step) {
  const EngineParts& parts = context_.parts;
  if (!step.empty()) {
    Stopwatch watch(*parts.clock, context_.times.executor_ns);
    if (Status status = launch_and_collect(step); !status.ok()) {
      fail(step, sequences_of(step.shares),
           plugin_fault("executor", parts.executor->name(), "failed", status));
    }
  }
  if (Status status = parts.kv_cache->step_done(step.id); !status.ok()) {
    context_.fault(plugin_fault("kv_cache", parts.kv_cache_name, "could not end a step", status));
  }
}

Status Engine::launch_and_collect(Step& step) {
  Executor& executor = *context_.parts.executor;
  const uint32_t vocabulary = context_.parts.shape->vocabulary;
  StepOutput& output = step.output;
  TENON_RETURN_IF_ERROR(executor.launch(step.batch));
  TENON_ASSIGN_OR_RETURN(output, executor.collect(step.id));
  const bool whole = output.step_id == step.id && output.logits_rows == step.record.logits_rows &&
                     output.vocabulary == vocabulary &&
                     (output.logits != nullptr || output.logits_rows == 0);
  if (whole) return {};
  return internal("step " + std::to_string(output.step_id) + " came back with " +
                  std::to_string(output.logits_rows) + " rows of " +
                  std::to_string(output.vocabulary) + " logits – expected step " +
                  std::to_string(step.id) + ", " + std::to_string(step.record.logits_rows) +
                  " of " + std::to_string(vocabulary));
}

// Nothing of the step is used; `sequences` pay for it.
void Engine::fail(Step& step, std::vector<Sequence*> sequences, const std::string& message) {
  ++context_.totals.forward_faults;
  context_.fail_sequences(sequences, message);
  step.shares.clear();
  step.record.rows = 0;
}

Status Engine::record(Step& step) {
  context_.sweep();
  inbox_.set_busy(!context_.table.empty());
  StepRecord& record = step.record;
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
  if (!context_.options.check_kv) return {};
  Status status = context_.parts.kv_cache->check();
  if (status.ok()) return status;
  return with_context(
      "kv_cache '" + context_.parts.kv_cache_name + "' after step " + std::to_string(step.id),
      status);
}

}  // namespace tenon
