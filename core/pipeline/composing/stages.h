// The stages in which a pipeline is composed. Each is a struct of what is known from then on, and
// has all stages before it as its base: a function that takes one can use nothing that comes later.
//
//   PipelineSettings → OpenedModels → PlacedModels → NegotiatedPipeline → StrategyPlugins →
//   PlannedMemory → BoundPlugins → Pipeline (pipeline.h)
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/text_end.h"
#include "core/config/pipeline_config.h"
#include "core/contract/checked_attention.h"
#include "core/contract/checked_linear.h"
#include "core/contract/checked_state.h"
#include "core/engine/step/drafts/draft_runner.h"
#include "core/exec/executor.h"
#include "core/exec/ranks/model_cut.h"
#include "core/model/adapters/adapter.h"
#include "core/model/heads/head.h"
#include "core/model/model.h"
#include "core/pipeline/rank_parts.h"
#include "core/plugin/facts/negotiation.h"
#include "core/plugin/instance.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {

// A smaller model beside the one that generates, for drafters that run one ([drafter] model). It
// runs on the same workers, its K/V lies in groups of the same memory.
struct SecondModel {
  // Of a head that is a product or two of the target's states there are none, and no executor.
  bool runs_layers() const { return head == nullptr || head->has_layers(); }

  std::unique_ptr<Model> model;
  std::unique_ptr<Head> head;  // null: a model that needs nothing of the other
  // For its drafter: what it wants to see, and what its checkpoint may leave open.
  HiddenLayersOut head_states;
  int8_t* head_norm = nullptr;
  std::string_view head_kind;
  std::unique_ptr<ModelShapeStorage> shape;
  KvGeometry geometry;  // of its groups
  // Of a head that drafts blocks: `geometry` has so many more blocks than its manager knows.
  uint32_t spare_blocks = 0;
  std::vector<KvGroupGeometry> own_geometry;  // [groups] that `geometry` points to
  PluginInstance<AttentionKernel> attention, attention_decode;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<DraftRunner> runner;
  ModelRunner* runner_view = nullptr;  // what the extensions lead to
  ModelTreeRunner* tree_view = nullptr;
  ModelBlockRunner* block_view = nullptr;
};

// The resolved configuration, and the machine as that sees it.
struct PipelineSettings {
  PipelineSettings() = default;
  PipelineSettings(const PipelineSettings&) = delete;
  PipelineSettings& operator=(const PipelineSettings&) = delete;

  PipelineConfig config;
  HostFacts host;
  WallClock wall_clock;
  const Clock* clock = &wall_clock;  // that plugins and the engine are given
  // `clock`, where it is one that stands still: whoever runs the engine moves it to the next
  // arrival, and to Engine::wake_ns.
  VirtualClock* virtual_clock = nullptr;
  SharedWeights* shared_weights = nullptr;  // as the request has it
  Collective* ranks = nullptr;              // likewise
};

// Models and tokenizer are opened, and how long and wide steps may be is settled.
struct OpenedModels : PipelineSettings {
  std::unique_ptr<Model> model;      // of several ranks what is this one's
  uint64_t parameters = 0;           // of all ranks
  ModelCut cut;                      // how it was cut
  std::vector<RankPart> rank_parts;  // of all ranks, where the pipeline is only to be shown
  std::vector<std::unique_ptr<Adapter>> adapters;  // of the model, by name
  std::unique_ptr<Tokenizer> tokenizer;            // null: the model's folder has none
  Status tokenizer_problem;                        // why
  std::vector<TextEnd> ends;                       // what ends a text, and who says so
  std::unique_ptr<SecondModel> second;             // null: the drafter runs none
  SchedulerLimits limits;
  std::unique_ptr<ModelShapeStorage> shape;
  std::unique_ptr<ModelShapeStorage> joint_shape;  // with a second model: both, for the KV manager

  // The groups of all models that run here, as KV managers see them.
  const ModelShape& kv_shape() const { return (joint_shape ? joint_shape : shape)->shape(); }
  uint64_t weight_bytes() const;  // as stored in the checkpoints
};

// There are executors for the models, not loaded yet: `host` has their workers.
struct PlacedModels : OpenedModels {
  std::unique_ptr<Executor> executor;
};

// What was chosen fits together.
struct NegotiatedPipeline : PlacedModels {
  ResolvedFacts facts;
  PipelineFacts fact_view;                    // what plugins hold on to
  ExtensionTable extensions;                  // as well
  std::vector<ResolvedComponent> components;  // the plugins made so far
};

// The plugins are made that decide how much memory is needed for K and V.
struct StrategyPlugins : NegotiatedPipeline {
  PluginInstance<Scheduler> fallback_scheduler;  // where `scheduler` is isolated
  PluginInstance<Scheduler> scheduler;
  PluginInstance<KVCacheManager> kv_cache;
  std::string evicts;                         // what it says for the numerics id, where it evicts
  std::optional<KvEviction> eviction;         // within the context; `numerics` is `evicts`
  const KvScores* scores = nullptr;           // not null: by what weight entries got
  PluginInstance<AttentionKernel> attention;  // empty when the executor uses no kernels
  PluginInstance<AttentionKernel> attention_decode;  // where single rows have one of their own
  PluginInstance<StateKernel> state;                 // where layers have a recurrence
};

// What sequences take of K/V memory, whatever there is of it.
struct KvNeeds {
  uint64_t token_bytes = 0;     // of all groups that grow; 0: none does
  uint64_t sequence_bytes = 0;  // of a sequence of full length, as much as is kept of it
  uint64_t state_bytes = 0;     // of a sequence's recurrent states
};

// Memory for K and V is cut into blocks, and `config` says what "auto" became.
struct PlannedMemory : StrategyPlugins {
  KvNeeds kv_needs;
  std::vector<KvGroupGeometry> group_geometry;
  KvGeometry geometry;  // of all groups, the second model's after the target's
  DType kv_dtype = DType::f32;
};

// Of a tier that a plugin keeps.
struct ChosenStore {
  PluginRef plugin;
  FilledOptions options;
};

// All plugins are made and know what they work with.
struct BoundPlugins : PlannedMemory {
  std::vector<PluginInstance<LinearKernel>> linear;  // those that a weight asked for
  // What executors are given instead of the kernels: of each of `linear`, and of all attention.
  std::vector<std::unique_ptr<CheckedLinear>> checked_linear;
  std::vector<const GateFinish*> linear_finish;  // of each of `linear`; null: it offers none
  std::vector<std::string> linear_packs_as;      // of each of `linear` (ChosenLinear::packs_as)
  std::vector<std::unique_ptr<CheckedAttention>> checked_attention;
  std::unique_ptr<CheckedState> checked_state;
  std::vector<TokenId> draft_text;  // of the file [drafter] text; empty without
  std::span<const TokenId> draft_text_view;
  std::vector<ChosenStore> chosen_stores;  // in the order of their tiers; made with these
  PluginInstance<Sampler> sampler;
  PluginInstance<Drafter> drafter;     // empty without speculation
  std::vector<LayerId> hidden_layers;  // whose hidden states it asked for
  bool hidden_drawn_only = false;
  // What steps took before the first one, for drafters that ask for it.
  std::vector<StepCost> step_costs;
  std::span<const StepCost> step_costs_view;
};

}  // namespace tenon
