// The steps of composing a pipeline, one concern each; `build_pipeline` calls them in order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/pipeline.h"

namespace tenon {

// A plugin chosen for a section, its options checked, not yet created.
struct ChosenPlugin {
  std::string section;  // "scheduler"
  PluginRef plugin;
  Origin origin;
  std::vector<Setting> settings;
  FilledOptions options;

  Participant participant() const;
};

// The kernels that may serve the model's weights, best first.
struct LinearChoice {
  std::string format;
  std::vector<PluginRef> candidates;
};

struct ChosenPlugins {
  ChosenPlugin scheduler, kv_cache, sampler;
  std::unique_ptr<ChosenPlugin> attention, drafter;
  std::vector<LinearChoice> linear;
};

Result<ChosenPlugins> choose_plugins(const PipelineRequest& request, const HostFacts& host,
                                     const Model& model, const Executor& executor);

Result<ResolvedFacts> negotiate_pipeline(const PipelineRequest& request, const HostFacts& host,
                                         const Model& model, const Executor& executor,
                                         uint32_t context_tokens, ChosenPlugins& chosen);

// Block size, element type and number of blocks, from the facts and the memory that is allowed.
Status plan_kv_memory(const PipelineRequest& request, Pipeline& pipeline);

// Creates what was chosen. The resolver keeps pointers to both arguments.
Status create_plugins(Pipeline& pipeline, ChosenPlugins& chosen);
LinearResolver make_linear_resolver(Pipeline& pipeline, ChosenPlugins& chosen);

}  // namespace tenon
