// The steps of composing a pipeline, one concern each; `build_pipeline` calls them in order. Each
// takes the stage (stages.h) that it completes, or reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/pipeline/pipeline.h"

namespace tenon {

// A plugin chosen for a section, its options checked, not yet created.
struct ChosenPlugin {
  std::string section;  // "scheduler"
  PluginRef plugin;
  Origin origin;
  std::vector<Setting> settings;
  FilledOptions options;
  bool automatic = false;  // "auto": any of the interface

  Participant participant() const;
};

// The kernels that may serve the model's weights, best first.
struct LinearChoice {
  std::string format;
  std::vector<PluginRef> candidates;
};

struct ChosenPlugins {
  ChosenPlugin scheduler, kv_cache, sampler;
  std::unique_ptr<ChosenPlugin> fallback_scheduler;  // null where the scheduler is not isolated
  // Of attention the one for prompts, and the one for single rows where that is another.
  std::unique_ptr<ChosenPlugin> attention, attention_decode, drafter;
  std::unique_ptr<ChosenPlugin> state;  // null where no layer has a recurrence
  std::vector<LinearChoice> linear;
  std::string guest;  // the executor's, which takes the place of linear kernels; empty: none
};

// For the pipeline's models, adapters and executor.
Result<ChosenPlugins> choose_plugins(const PipelineRequest& request, const PlacedModels& pipeline);

Result<ResolvedFacts> negotiate_pipeline(const PipelineRequest& request, const HostFacts& host,
                                         const Model& model, const Executor& executor,
                                         uint32_t context_tokens, ChosenPlugins& chosen);

// Opens the second model that the configuration names, if it does, and holds it against the first:
// both must speak the same vocabulary.
Status open_second_model(const PipelineRequest& request, OpenedModels& pipeline);
// Whether the chosen drafter and the configuration mean the same about a second model.
Status check_second_model(const PipelineConfig& config, const ChosenPlugins& chosen);
// Whether the chosen kernel can attend for the second model too, with the K/V that was agreed upon.
Status fit_second_model(const PipelineRequest& request, const NegotiatedPipeline& pipeline,
                        const ChosenPlugins& chosen);
// Its part of `geometry`, and spare blocks where a head drafts blocks.
void place_second_model(const SchedulerLimits& limits, const KvGeometry& geometry,
                        SecondModel& second);
// Makes what drafters reach as model_runner/2; the executor behind it is loaded later.
Status create_second_model(PlannedMemory& pipeline, const ChosenPlugins& chosen,
                           const PluginSurroundings& surroundings);
// Whether the drafter that was made runs the head that the configuration names.
Status check_head(const BoundPlugins& pipeline);
Status load_second_model(BoundPlugins& pipeline, const LinearResolver& linear);

// Runs steps of a few widths, where the drafter asked for what they cost. Errors: the executor's.
Status measure_steps(BoundPlugins& pipeline);

// Reads the file of [drafter] text, if there is one, as the model's tokens. Drafters find them as
// extension "drafter_text/1", a `const std::span<const TokenId>`.
Status read_draft_text(BoundPlugins& pipeline);
// Whether the drafter, which was created, asked for the text that it was given.
Status check_draft_text(const BoundPlugins& pipeline);
// How closely calls of this pipeline's plugins are looked at.
CallChecks call_checks(const PipelineConfig& config);
// From here on the registry loads, or isolates, as the configuration says.
void guard_registry(const PipelineRequest& request);
// Who plans where the isolated scheduler's process is lost; the scheduler is there already.
Status create_fallback(StrategyPlugins& pipeline, ChosenPlugins& chosen,
                       const PluginSurroundings& surroundings);
// What an isolated scheduler hears of a plan that was refused; empty where there is none.
std::function<void()> refusal_of_plans(const StrategyPlugins& pipeline);

// Tells the drafter what the target looks like, and learns which hidden states it wants to see.
Status bind_drafter(BoundPlugins& pipeline);

// The words that a plugin provides under a key.
std::vector<std::string> words_provided(const PluginDescriptor& descriptor, std::string_view key);

// The number that a plugin says is the most of something; 0 where it does not say.
uint32_t most_provided(const PluginDescriptor& descriptor, std::string_view key);

// What a model asks of the kernels that run it.
Participant model_participant(std::string role, const Model& model, const Origin& origin);
Participant executor_participant(const Executor& executor, const Origin& origin);
// What takes the place of linear kernels; `rows` is what it says of numerics.rows.
Participant guest_participant(std::string name, std::string_view rows, const Origin& origin);

// Invites whom [linear] names, where the executor knows it as its guest; other names are left to
// `choose_plugins`, which says what is wrong with them. Errors: what the guest lacks here.
Status invite_guest(const PipelineConfig& config, Executor& executor);
// " but "cublaslt"", of an executor with guests; else nothing.
std::string but_guests(const Executor& executor);
// What is said where there is no linear plugin of that name: whose guest it is, or `unknown`.
Status not_a_plugin(const Configured<std::string>& name, const Status& unknown);

// Whether the memory that the configuration asks for is there, before anything grows with it:
// refused where the machine has not that much, and a warning where others hold it now.
Status check_asked_memory(const PipelineRequest& request, const PlacedModels& pipeline);
// What the host can still give once the weights are in memory.
uint64_t memory_beside_weights(const PipelineRequest& request, const OpenedModels& pipeline);

// Block size, element type and number of blocks, from the facts, the memory that is allowed, and
// how much of a sequence the KV manager keeps.
Status plan_kv_memory(const PipelineRequest& request, PlannedMemory& pipeline);

// The files that weights come from, with what tells one that was changed: what an executor that
// shares weights goes by. Those of a pipeline are its model's and its adapters'.
std::string weight_files(const Model& model);
std::string weight_files(const OpenedModels& pipeline);

// What tells weights by their content alone, wherever their files lie. Errors: those of reading.
Result<std::string> weight_contents(const std::string& path);

// Whether K/V of this pipeline can lie in the tiers that are configured, and go to other workers;
// chooses the plugins of those that plugins keep.
Status check_tiers(const PipelineRequest& request, BoundPlugins& pipeline);
// Opens them, and what other workers fetch K/V from: of a server's engines, the first one's. The
// executor is loaded.
Status open_tiers(const PipelineRequest& request, Pipeline& pipeline);

// Whether any layer of the model does.
bool attends(const ModelPlan& plan);
bool recurs(const ModelPlan& plan);

// As an executor takes them; `decode` may be empty.
AttentionKernels kernels_of(BoundPlugins& pipeline, const PluginInstance<AttentionKernel>& prefill,
                            const PluginInstance<AttentionKernel>& decode);

// What the pipeline's plugins may reach.
PluginSurroundings surroundings_of(const NegotiatedPipeline& pipeline);

// Notes it among the pipeline's components, then makes it.
template <typename T>
Status create_plugin(NegotiatedPipeline& pipeline, ChosenPlugin& chosen, PluginInstance<T>& out) {
  const auto items = chosen.options.items();
  pipeline.components.push_back(
      {chosen.section, std::string(chosen.plugin.descriptor->id), {items.begin(), items.end()}});
  TENON_ASSIGN_OR_RETURN(out, PluginInstance<T>::create(chosen.plugin, std::move(chosen.options),
                                                        surroundings_of(pipeline)));
  return {};
}

// Whether the manager takes out tokens of a sequence before the context is full, and by what.
Status learn_eviction(StrategyPlugins& pipeline);
// Those that a manager may evict from by what weight entries got.
std::vector<GroupId> scored_groups(const ModelShape& shape);
Status bind_kv_cache(PlannedMemory& pipeline);

// Several ranks (ranks.cc); each does nothing where there is one.
//
// Whether the keys of [parallel] and the ranks that there are agree, and the executor and what else
// is configured can be run by several.
Status check_ranks(const PipelineRequest& request);
// Ranks of one host share what memory it has.
void share_memory_with_ranks(PipelineRequest& request);
// What of the model is a rank's. Error: unsupported, where it cannot be cut as the configuration
// asks.
Result<ModelCut> cut_for_rank(const PipelineRequest& request, Model& model, uint32_t rank);
// Whether what the drafter wants to see can be shown.
Status check_shown_to_drafter(const BoundPlugins& pipeline);
Status join_ranks(PlacedModels& pipeline);
Status check_what_ranks_run(const StrategyPlugins& pipeline);
// `planned`: how far this rank came. All ranks go on with what the least of them has room for, or
// none goes on: the error is that of the first rank that has one.
Status agree_on_plan(PlannedMemory& pipeline, Status planned);
Status agree_on_load(PlannedMemory& pipeline, Status loaded);
// The last step of loading: rank 0's executor leads from now on. All have the same numerics id.
Status lead_or_follow(Pipeline& pipeline);

// The best kernel of each format; others are made when a weight asks for them.
Status create_linear(BoundPlugins& pipeline, const ChosenPlugins& chosen);

// Of weights whose format none of the pipeline's files has, such as those of an adapter that comes
// later, it chooses as the configuration says. Keeps pointers to the pipeline and the registry.
LinearResolver make_linear_resolver(BoundPlugins& pipeline, const ChosenPlugins& chosen,
                                    PluginRegistry& registry);

}  // namespace tenon
