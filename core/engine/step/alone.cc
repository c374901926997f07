#include "core/engine/step/alone.h"

#include <algorithm>
#include <vector>

#include "core/engine/answers/beam_memory.h"

namespace tenon {

bool let_first_run_alone(EngineContext& context) {
  const auto& running = context.table.running();
  if (running.empty()) return false;
  const Sequence& first = *running.front();
  context.alone = RunsAlone{first.request->id, first.beam != nullptr ? kNoSeq : first.id};
  return true;
}

void end_running_alone(EngineContext& context) {
  if (!context.alone) return;
  const std::vector<Sequence*> all = context.table.all();
  const bool lives =
      std::any_of(all.begin(), all.end(), [&](auto* one) { return context.may_run(*one); });
  if (!lives) context.alone.reset();
}

Status release_all_others(EngineContext& context, uint32_t& preemptions) {
  PluginCall call(*context.parts.clock, context.times.kv_cache_ns);
  const std::vector<Sequence*> running = context.table.running();
  for (Sequence* one : running) {
    if (context.may_run(*one) || one->state != SequenceState::running || one->in_flight > 0) {
      continue;
    }
    Status status;
    if (one->beam != nullptr) {
      status = release_group(*one->request->beam_group, *context.parts.kv_cache, context.table);
    } else {
      status = context.parts.kv_cache->release(one->id, ReleaseHow::recompute);
      if (status.ok()) context.table.preempt(*one);
    }
    if (!status.ok()) return status;
    ++preemptions;
  }
  return {};
}

}  // namespace tenon
