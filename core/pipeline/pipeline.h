// A pipeline, composed: model and tokenizer opened, facts negotiated, plugins created, executor
// loaded. What does not fit is refused here, with all reasons, before anything is created.
#pragma once

#include <tenon/extensions/kv_store.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/config/pipeline_config.h"
#include "core/contract/checked_kv_store.h"
#include "core/engine/engine_parts.h"
#include "core/pipeline/composing/stages.h"
#include "core/plugin/registry.h"
#include "core/tiers/tiers.h"
#include "core/transfer/transfer.h"

namespace tenon {

// Executors by the name that [executor] plugin gives.
using ExecutorFactories = std::map<std::string, ExecutorFactory>;

struct PipelineRequest {
  PipelineConfig config;
  PluginRegistry* registry = nullptr;  // borrowed; outlives the pipeline
  ExecutorFactories executors;
  // Those that are not built in, by name; asked for what `executors` has not. May be empty.
  std::function<Result<ExecutorFactory>(const std::string& name)> find_executor;
  HostFacts host;         // this machine; isa and threads of the configuration lower it
  LoadProgress progress;  // may be empty
  uint64_t available_memory_bytes = 0;    // for weights and K/V; 0 = what the system can give now
  uint64_t total_memory_bytes = 0;        // 0 = the machine's, or what its control groups allow
  const Clock* clock = nullptr;           // borrowed, outlives the pipeline; null = the system's
  VirtualClock* virtual_clock = nullptr;  // the same, where it stands still until somebody moves it
  // Of a server's engines with the same weights: which one this is, of how many.
  uint32_t replica = 0, replicas = 1;
  bool load_weights = true;  // false: everything but the executor's load, for `config explain`
  // Called when memory is planned and nothing is loaded yet. May be empty.
  std::function<void(const PlannedMemory&)> planned;
  // Borrowed, may be null: pipelines of one process that are given the same one keep packed weights
  // once where they are the same.
  SharedWeights* shared_weights = nullptr;
  // The processes that run this pipeline together, borrowed; all of them build it at the same time.
  // Null: this one alone, where parallel.tensor is 1.
  Collective* ranks = nullptr;
  // Opens the model in place of open_model(); may be empty.
  std::function<Result<std::unique_ptr<Model>>(const std::string& path, std::string_view as)> open =
      {};
};

// A plugin that keeps K/V of a tier, and what its answers go through.
struct StorePlugin {
  StorePlugin(PluginInstance<KvStore> made, CallChecks checks);
  PluginInstance<KvStore> plugin;
  CheckedKvStore checked;
};

// The last stage: the executors are loaded, unless the request says not to. It ends from the back.
struct Pipeline : BoundPlugins {
  ~Pipeline();

  GenerationDefaults advice;  // of the model's files, as far as it is followed
  std::string hash;           // config_hash
  std::string numerics;       // the numerics id
  std::vector<std::shared_ptr<StorePlugin>> kv_stores;  // those of `tiers` that are plugins
  std::unique_ptr<Tiers> tiers;                         // of K/V; null where none are configured
  std::unique_ptr<KvTransfer> transfer;                 // likewise, to and from other workers

  uint64_t kv_bytes() const;
  // Borrowed parts for an engine, its text decoders included.
  EngineParts parts();
  // As the configuration asks.
  EngineOptions engine_options() const;
  // Instances with the word of their interface ("scheduler"), for reports.
  std::vector<std::pair<std::string, const PluginObject*>> plugins() const;
};

Result<std::unique_ptr<Pipeline>> build_pipeline(PipelineRequest request);

}  // namespace tenon
