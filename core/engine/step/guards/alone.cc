#include "core/engine/step/guards/alone.h"

#include <algorithm>
#include <vector>

namespace tenon {

bool let_first_run_alone(EngineContext& context) {
  const auto& running = context.table.running();
  if (running.empty()) return false;
  const Sequence& first = *running.front();
  context.alone = RunsAlone{first.request->id, first.answer->traits.grouped ? kNoSeq : first.id};
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
    TENON_RETURN_IF_ERROR(one->answer->release());
    ++preemptions;
  }
  return {};
}

}  // namespace tenon
