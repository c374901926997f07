// A pipeline, composed: model and tokenizer opened, facts negotiated, plugins created, executor
// loaded. What does not fit is refused here, with all reasons, before anything is created.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/origin.h"
#include "core/config/pipeline_config.h"
#include "core/contract/checked_attention.h"
#include "core/contract/checked_linear.h"
#include "core/contract/checked_state.h"
#include "core/engine/engine_parts.h"
#include "core/engine/step/draft_runner.h"
#include "core/exec/executor.h"
#include "core/model/adapters/adapter.h"
#include "core/model/model.h"
#include "core/plugin/instance.h"
#include "core/plugin/negotiation.h"
#include "core/plugin/registry.h"
#include "core/tokenizer/tokenizer.h"

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
  uint64_t available_memory_bytes = 0;  // for weights and K/V; 0 = what the system can give now
  uint64_t total_memory_bytes = 0;      // 0 = the machine's, or what its control groups allow
  const Clock* clock = nullptr;         // borrowed, outlives the pipeline; null = the system's
  bool load_weights = true;  // false: everything but the executor's load, for `config explain`
  // Borrowed, may be null: pipelines of one process that are given the same one keep packed weights
  // once where they are the same.
  SharedWeights* shared_weights = nullptr;
};

// A smaller model beside the one that generates, for drafters that run one ([drafter] model). It
// runs on the same workers, its K/V lies in groups of the same memory.
struct SecondModel {
  std::unique_ptr<Model> model;
  std::unique_ptr<ModelShapeStorage> shape;
  KvGeometry geometry;  // of its groups
  PluginInstance<AttentionKernel> attention, attention_decode;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<DraftRunner> runner;
  ModelRunner* runner_view = nullptr;  // what the extension leads to
};

struct Pipeline {
  Pipeline() = default;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // In order of construction; destroyed the other way round.
  PipelineConfig config;
  HostFacts host;
  WallClock wall_clock;
  const Clock* clock = &wall_clock;  // that plugins and the engine are given
  std::unique_ptr<Model> model;
  std::vector<std::unique_ptr<Adapter>> adapters;  // of the model, by name
  std::unique_ptr<Tokenizer> tokenizer;            // null: the model's folder has none
  Status tokenizer_problem;                        // why
  std::unique_ptr<ModelShapeStorage> shape;
  std::unique_ptr<ModelShapeStorage> joint_shape;  // with a second model: both, for the KV manager
  std::vector<KvGroupGeometry> group_geometry;
  KvGeometry geometry;  // of all groups, the second model's behind the target's
  DType kv_dtype = DType::f32;
  SchedulerLimits limits;
  ResolvedFacts facts;
  PipelineFacts fact_view;                       // what plugins hold on to
  ExtensionTable extensions;                     // as well
  PluginInstance<Scheduler> fallback_scheduler;  // where `scheduler` is isolated
  PluginInstance<Scheduler> scheduler;
  PluginInstance<KVCacheManager> kv_cache;
  std::string evicts;                         // what it says for the numerics id, where it evicts
  std::optional<KvEviction> eviction;         // within the context; `numerics` is `evicts`
  const KvScores* scores = nullptr;           // not null: by what weight entries got
  PluginInstance<AttentionKernel> attention;  // empty when the executor uses no kernels
  PluginInstance<AttentionKernel> attention_decode;  // where single rows have one of their own
  PluginInstance<StateKernel> state;                 // where layers have a recurrence
  std::vector<PluginInstance<LinearKernel>> linear;  // those that a weight asked for
  // What executors are given in front of the kernels: of each of `linear`, and of all attention.
  std::vector<std::unique_ptr<CheckedLinear>> checked_linear;
  std::vector<const GateFinish*> linear_finish;  // of each of `linear`; null: it offers none
  std::vector<std::string> linear_packs_as;      // of each of `linear` (ChosenLinear::packs_as)
  std::vector<std::unique_ptr<CheckedAttention>> checked_attention;
  std::unique_ptr<CheckedState> checked_state;
  std::unique_ptr<SecondModel> second;  // null without [drafter] model
  std::vector<TokenId> draft_text;      // of the file [drafter] text; empty without
  std::span<const TokenId> draft_text_view;
  PluginInstance<Sampler> sampler;
  PluginInstance<Drafter> drafter;     // empty without speculation
  std::vector<LayerId> hidden_layers;  // whose hidden states it asked for
  bool hidden_drawn_only = false;
  std::unique_ptr<Executor> executor;

  std::vector<ResolvedComponent> components;
  SharedWeights* shared_weights = nullptr;  // as the request has it
  std::vector<TextEnd> ends;                // what ends a text, and who says so
  GenerationDefaults advice;                // of the model's files, as far as it is followed
  std::string hash;                         // config_hash
  std::string numerics;                     // the numerics id

  // The groups of all models that run here, as KV managers see them.
  const ModelShape& kv_shape() const { return (joint_shape ? joint_shape : shape)->shape(); }
  uint64_t kv_bytes() const;
  uint64_t weight_bytes() const;  // as stored in the checkpoints
  // Borrowed parts for an engine, its text decoders included.
  EngineParts parts();
  // As the configuration asks.
  EngineOptions engine_options() const;
  // Instances with the word of their interface ("scheduler"), for reports.
  std::vector<std::pair<std::string, const PluginObject*>> plugins() const;
};

Result<std::unique_ptr<Pipeline>> build_pipeline(PipelineRequest request);

}  // namespace tenon
