#include "core/engine/step/forward.h"

#include <algorithm>
#include <string>

#include "core/engine/step/drafts/draft_runner.h"
#include "core/engine/step/guards/output_check.h"

namespace tenon {

void Forward::take_moves(Step& step) {
  KVCacheManager& kv_cache = *context_.parts.kv_cache;
  PluginCall call(*context_.parts.clock, context_.times.executor_ns);
  moves_.resize(kMovesAtOnce);
  KvMovesOut out{moves_, 0};
  do {
    out.count = 0;
    std::string fault;
    if (Status status = kv_cache.take_moves(out); !status.ok()) {
      fault = plugin_fault("kv_cache", context_.parts.kv_cache_name, "failed", status);
    } else if (out.count > 0) {
      step.record.moves += out.count;
      if (Status applied = apply(std::span(moves_).first(out.count)); !applied.ok()) {
        fault = "copying K/V blocks failed: " + std::string(applied.message());
      }
    }
    if (!fault.empty()) {
      // Whose K/V is now missing cannot be told: what runs fails, what was swapped out is computed
      // again.
      for (const Sequence* waiting : context_.table.waiting()) {
        (void)kv_cache.release(waiting->id, ReleaseHow::recompute);
      }
      const std::vector<Sequence*> running = context_.table.running();
      return fail(step, running, fault);
    }
  } while (out.count == moves_.size());
}

// Each of a pipeline's models has its own groups, and its executor their bytes. Moves stay in order
// within a model; between models none depends on another.
Status Forward::apply(std::span<KvMove> moves) {
  const EngineParts& parts = context_.parts;
  if (parts.draft_runner == nullptr) return parts.executor->apply(moves);
  TENON_RETURN_IF_ERROR(parts.draft_runner->apply(moves));
  const auto end = std::remove_if(moves.begin(), moves.end(), [&](const KvMove& move) {
    return parts.draft_runner->owns(move);
  });
  return parts.executor->apply({moves.begin(), end});
}

void Forward::assemble(Step& step) {
  if (step.empty()) return;
  const EngineParts& parts = context_.parts;
  Result<BatchView> built = step.batch_builder.build(step.id, step.shares, *parts.kv_cache);
  if (!built.ok()) {
    return fail(step, sequences_of(step.shares),
                plugin_fault("kv_cache", parts.kv_cache_name, "has no table", built.status()));
  }
  step.batch = *built;
  StepRecord& record = step.record;
  record.sequences = static_cast<uint32_t>(step.shares.size());
  record.rows = step.batch.rows;
  record.logits_rows = static_cast<uint32_t>(step.batch.logits_rows.size());
  record.running = context_.table.staying();
  record.waiting = static_cast<uint32_t>(context_.table.waiting().size());
  const KvUsage usage = context_.kv_usage();
  record.kv_reserved_tokens = usage.reserved_tokens;
  record.kv_used_tokens = usage.used_tokens + step.batch.rows;
}

void Forward::stage(const Step& step) {
  if (step.empty()) return;
  Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
  context_.parts.executor->stage(step.batch);
}

void Forward::launch(Step& step) {
  if (step.empty()) return;
  const EngineParts& parts = context_.parts;
  {
    Stopwatch watch(*parts.clock, context_.times.kv_cache_ns);
    if (Status status = context_.contracts.kv_cache->write(step.batch); !status.ok()) {
      step.launched = with_context("kv_cache '" + parts.kv_cache_name + "'", status);
      return;
    }
  }
  Stopwatch watch(*parts.clock, context_.times.executor_ns);
  parts.executor->draw(row_draws_.of(step));
  if (Status status = parts.executor->launch(step.batch); !status.ok()) {
    step.launched =
        with_context("executor '" + std::string(parts.executor->name()) + "' failed", status);
  }
}

void Forward::collect(Step& step) {
  take(step);
  done(step);
}

void Forward::take(Step& step) {
  if (step.empty()) return;
  const EngineParts& parts = context_.parts;
  Stopwatch watch(*parts.clock, context_.times.executor_ns);
  if (!step.launched.ok()) {
    fail(step, sequences_of(step.shares), std::string(step.launched.message()));
  } else if (Status status = take_output(step); !status.ok()) {
    fail(step, sequences_of(step.shares),
         plugin_fault("executor", parts.executor->name(), "failed", status));
  }
}

void Forward::done(const Step& step) {
  const EngineParts& parts = context_.parts;
  PluginCall call(*parts.clock, context_.times.kv_cache_ns);
  if (Status status = parts.kv_cache->step_done(step.id); !status.ok()) {
    context_.fault(plugin_fault("kv_cache", parts.kv_cache_name, "could not end a step", status));
  }
}

Status Forward::take_output(Step& step) {
  TENON_ASSIGN_OR_RETURN(step.output, context_.parts.executor->collect(step.id));
  step.record.expert_bytes = step.output.expert_bytes;
  TENON_RETURN_IF_ERROR(check_output(step, *context_.parts.shape));
  if (context_.parts.scores == nullptr) return {};
  if (step.output.scores == nullptr) {
    return internal("step " + std::to_string(step.id) +
                    " came back without the weights of entries – expected them, since kv_cache '" +
                    context_.parts.kv_cache_name + "' evicts by weight");
  }
  step.scores = *step.output.scores;
  return {};
}

// Nothing of the step is used; `sequences` pay for it.
void Forward::fail(Step& step, const std::vector<Sequence*>& sequences,
                   const std::string& message) {
  ++context_.totals.forward_faults;
  context_.fail_sequences(sequences, message);
  step.shares.clear();
  step.record.rows = 0;
}

}  // namespace tenon
