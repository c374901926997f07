// What engine.guard means for a pipeline: how its calls are looked at, which of its plugins run in
// processes of their own, and who goes on where one of those is lost.
#include "core/isolation/isolated_library.h"
#include "core/isolation/isolated_scheduler.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

// Only where another one is there to take its place.
IsolatedScheduler* isolated_scheduler(const StrategyPlugins& pipeline) {
  return static_cast<IsolatedScheduler*>(pipeline.scheduler.get());
}

}  // namespace

CallChecks call_checks(const PipelineConfig& config) {
  return config.guard.value == GuardLevel::off ? CallChecks::usual : CallChecks::more;
}

AttentionKernels kernels_of(BoundPlugins& pipeline, const PluginInstance<AttentionKernel>& prefill,
                            const PluginInstance<AttentionKernel>& decode) {
  const auto named = [&](const PluginInstance<AttentionKernel>& kernel) {
    const std::string id(kernel.object().descriptor().id);
    pipeline.checked_attention.push_back(
        std::make_unique<CheckedAttention>(*kernel, id, call_checks(pipeline.config)));
    CheckedAttention& checked = *pipeline.checked_attention.back();
    const RunningCall call(name_call("extension", "attention '" + id + "'"));
    const auto* scores = kernel.extension<AttentionScores>(kAttentionScores);
    const bool whole = scores != nullptr && scores->add != nullptr;
    const auto* chunks = kernel.extension<AttentionChunks>(kAttentionChunks);
    if (chunks != nullptr && chunks->set == nullptr) chunks = nullptr;
    return NamedAttention{&checked, id, whole ? checked.scores(*scores) : nullptr, chunks};
  };
  AttentionKernels kernels;
  if (!prefill) return kernels;
  kernels.prefill = named(prefill);
  kernels.decode = decode ? named(decode) : kernels.prefill;
  return kernels;
}

void guard_registry(const PipelineRequest& request) {
  const PipelineConfig& config = request.config;
  const bool isolate = config.guard.value == GuardLevel::isolate;
  request.registry->isolate_others(
      isolate ? isolating({config.process_memory_bytes.value, config.call_limit_ns.value})
              : PluginRegistry::Isolate());
}

std::function<void()> refusal_of_plans(const StrategyPlugins& pipeline) {
  if (!pipeline.fallback_scheduler) return {};
  return [scheduler = isolated_scheduler(pipeline)] { scheduler->plan_refused(); };
}

Status create_fallback(StrategyPlugins& pipeline, ChosenPlugins& chosen,
                       const PluginSurroundings& surroundings) {
  if (!chosen.fallback_scheduler) return {};
  ChosenPlugin& other = *chosen.fallback_scheduler;
  TENON_ASSIGN_OR_RETURN(
      pipeline.fallback_scheduler,
      PluginInstance<Scheduler>::create(other.plugin, std::move(other.options), surroundings));
  isolated_scheduler(pipeline)->set_fallback(pipeline.fallback_scheduler.get(),
                                             pipeline.config.fallback_scheduler.value);
  return {};
}

}  // namespace tenon
