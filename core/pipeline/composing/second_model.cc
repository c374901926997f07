// The second model of a pipeline: opened, held against the first, made and loaded.
#include <tenon/extensions/draft_head.h>
#include <tenon/extensions/model_runner_block.h>
#include <tenon/extensions/model_runner_tree.h>

#include <algorithm>
#include <optional>

#include "core/base/log.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/exec/head_host.h"
#include "core/pipeline/composing/composing.h"
#include "core/plugin/facts/fact_words.h"

namespace tenon {
namespace {

std::string double_quoted(std::string_view text) {
  return "\"" + one_line(text) + "\"";
}

// The first id that means something else in the two vocabularies; nothing when there is none.
std::optional<TokenId> first_difference(const Tokenizer& a, const Tokenizer& b) {
  const auto most = static_cast<TokenId>(std::max(a.vocab_size(), b.vocab_size()));
  for (TokenId id = 0; id < most; ++id) {
    if (a.piece(id) != b.piece(id)) return id;
  }
  return std::nullopt;
}

// Weights alone say nothing against their vocabulary; nor does a tokenizer of a kind that is not
// built, of which a word is said. One that is damaged is refused.
Status without_tokenizer(const std::string& path, const Status& why, const std::string& where) {
  const bool is_named = is_there(path + "/tokenizer.json") || is_there(path + "/tokenizer.model");
  if (why.code() == StatusCode::not_found && !is_named) return {};
  const std::string context = where + ": the second model's tokenizer";
  if (why.code() != StatusCode::unsupported) return with_context(context, why);
  log(LogLevel::warning, "pipeline",
      context + " is not held against the model's: " + message_of(why));
  return {};
}

Status check_vocabulary(const OpenedModels& pipeline, const Model& second,
                        const std::string& where) {
  const uint32_t target = pipeline.model->plan.vocabulary;
  const uint32_t draft = second.plan.vocabulary;
  if (target != draft) {
    return invalid_argument(where + ": the second model has a vocabulary of " +
                            std::to_string(draft) + " tokens, but the model has " +
                            std::to_string(target) +
                            "; drafts need the same vocabulary: choose a model of the same family");
  }
  if (pipeline.tokenizer == nullptr) return {};
  const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(second.path);
  if (!tokenizer.ok()) {
    return without_tokenizer(second.path, tokenizer.status(), where);
  }
  const auto id = first_difference(*pipeline.tokenizer, **tokenizer);
  if (!id) return {};
  return invalid_argument(where + ": token " + std::to_string(*id) + " is " +
                          double_quoted((*tokenizer)->piece(*id)) + " in the second model, but " +
                          double_quoted(pipeline.tokenizer->piece(*id)) +
                          " in the model; drafts need the same vocabulary: choose a model of the "
                          "same family");
}

void keep_head(OpenedModels& pipeline, OpenedHead opened) {
  pipeline.second = std::make_unique<SecondModel>();
  SecondModel& second = *pipeline.second;
  second.model = std::move(opened.model);
  second.head = std::move(opened.head);
  second.head_states.layers = second.head->state_layers;
  second.head_states.count = static_cast<uint32_t>(second.head->state_layers.size());
  second.head_kind = head_kind_name(second.head->kind);
}

// A head's folder, in place of a whole model's.
Status open_head_of(OpenedModels& pipeline) {
  const auto& path = pipeline.config.draft_model_path;
  Result<OpenedHead> opened = open_head(path.value, *pipeline.model);
  if (!opened.ok()) return with_context(path.origin.text(), opened.status());
  TENON_RETURN_IF_ERROR(check_vocabulary(pipeline, *opened->model, path.origin.text()));
  keep_head(pipeline, *std::move(opened));
  return {};
}

bool needs(const PluginDescriptor& drafter, std::string_view what) {
  return requires_word(drafter, "draft.needs", what);
}

// The model's own layers for drafts, where the drafter is one that runs them. One that cannot be
// found is told of where plugins are chosen.
Status open_layers_for_drafts(const PipelineRequest& request, OpenedModels& pipeline) {
  const auto& drafter = request.config.drafter;
  if (!drafter || request.registry == nullptr) return {};
  const Configured<std::string>& id = drafter->plugin;
  const auto found =
      request.registry->find_usable(kDrafterInterface, id.value, pipeline.host, id.origin);
  if (!found.ok() || !needs(*found->descriptor, "layers")) return {};
  if (const auto& path = request.config.draft_model_path; !path.value.empty()) {
    if (needs(*found->descriptor, "model")) return {};
    return invalid_argument(path.origin.text() + ": drafter.model is set, but drafter " +
                            double_quoted(id.value) + " runs the model's own layers; remove it");
  }
  Result<OpenedHead> opened = open_own_head(*pipeline.model);
  if (!opened.ok()) return with_context(id.origin.text(), opened.status());
  keep_head(pipeline, *std::move(opened));
  return {};
}

}  // namespace

Status open_second_model(const PipelineRequest& request, OpenedModels& pipeline) {
  const auto& path = pipeline.config.draft_model_path;
  TENON_RETURN_IF_ERROR(open_layers_for_drafts(request, pipeline));
  if (path.value.empty()) return {};
  if (is_head(path.value)) return open_head_of(pipeline);
  Result<std::unique_ptr<Model>> model = open_model(path.value);
  if (!model.ok()) return with_context(path.origin.text(), model.status());
  TENON_RETURN_IF_ERROR(check_vocabulary(pipeline, **model, path.origin.text()));
  if (recurs((*model)->plan)) {
    return unsupported(path.origin.text() + ": drafter.model " + path_in_quotes(path.value) +
                       " has recurrent layers; a model that drafts needs layers that all attend");
  }
  if ((*model)->plan.mask_token) {
    return unsupported(
        path.origin.text() + ": drafter.model " + path_in_quotes(path.value) +
        " generates by diffusion; drafts need a model that generates token by token");
  }
  pipeline.second = std::make_unique<SecondModel>();
  pipeline.second->model = *std::move(model);
  return {};
}

Status check_second_model(const PipelineConfig& config, const ChosenPlugins& chosen) {
  if (chosen.drafter == nullptr) return {};
  const PluginDescriptor& drafter = *chosen.drafter->plugin.descriptor;
  const std::string name = "drafter " + double_quoted(drafter.id);
  const auto& path = config.draft_model_path;
  if (needs(drafter, "model") && !needs(drafter, "layers") && path.value.empty()) {
    return invalid_argument(chosen.drafter->origin.text() + ": " + name +
                            " runs a second model, but none is configured; set drafter.model to "
                            "the folder of a smaller model with the same vocabulary, or of a head "
                            "that was made for this model");
  }
  if (!needs(drafter, "model") && !path.value.empty()) {
    return invalid_argument(path.origin.text() + ": drafter.model is set, but " + name +
                            " runs no second model; remove it");
  }
  return {};
}

Status fit_second_model(const PipelineRequest& request, const NegotiatedPipeline& pipeline,
                        const ChosenPlugins& chosen) {
  if (chosen.attention == nullptr) return {};
  const ResolvedFact* dtype = pipeline.facts.find("kv.dtype");
  const ResolvedFact* block = pipeline.facts.find("kv.block_tokens");
  if (dtype == nullptr || block == nullptr) return {};
  NegotiationRequest negotiation;
  negotiation.context_tokens = pipeline.limits.context_tokens;
  negotiation.participants = {
      model_participant("drafter", *pipeline.second->model,
                        pipeline.second->head && request.config.draft_model_path.value.empty()
                            ? request.config.drafter->plugin.origin
                            : request.config.draft_model_path.origin),
      executor_participant(*pipeline.executor, request.config.executor.origin),
      chosen.attention->participant(),
      {.role = "config",
       .name = "the pipeline's KV cache",
       .origin = {},
       .provides = {{"kv.dtype", FactOp::in, 0, dtype->word},
                    {"kv.block_tokens", FactOp::equals, block->number, {}}},
       .requirements = {}}};
  if (pipeline.second->head != nullptr && pipeline.second->head->kind == HeadKind::dflash) {
    negotiation.participants.front().requirements.push_back(
        {"attn.mask.spans", FactOp::all_of, 0, "yes"});
  }
  if (chosen.attention_decode != nullptr) {
    negotiation.participants.push_back(chosen.attention_decode->participant());
  }
  return negotiate(negotiation).take_status();
}

// As many as the sequences of one pass can need: a block may end in a sequence's last one.
void place_second_model(const SchedulerLimits& limits, const KvGeometry& geometry,
                        SecondModel& second) {
  const uint32_t groups = second.shape->shape().group_count;
  const std::span all(geometry.groups, geometry.group_count);
  second.own_geometry.assign(all.end() - groups, all.end());
  second.geometry = geometry;
  second.geometry.group_count = groups;
  second.geometry.groups = second.own_geometry.data();
  if (second.head == nullptr || second.head->kind != HeadKind::dflash) return;
  const uint32_t rows = second.head->block_rows();
  const uint32_t sequences =
      std::min(limits.max_sequences, std::max(limits.max_batch_tokens / rows, 1u));
  uint32_t each = 0;
  for (const KvGroupGeometry& group : second.own_geometry) {
    const bool whole_text = group.block_tokens >= limits.context_tokens;
    if (!whole_text) each = std::max(each, (rows + group.block_tokens - 1) / group.block_tokens);
  }
  second.spare_blocks = sequences * each;
  for (KvGroupGeometry& group : second.own_geometry) group.blocks += second.spare_blocks;
}

Status create_second_model(PlannedMemory& pipeline, const ChosenPlugins& chosen,
                           const PluginSurroundings& surroundings) {
  SecondModel& second = *pipeline.second;
  const auto create = [&](const ChosenPlugin* kernel,
                          PluginInstance<AttentionKernel>& out) -> Status {
    if (kernel == nullptr) return {};
    TENON_ASSIGN_OR_RETURN(FilledOptions options,
                           fill_options(*kernel->plugin.descriptor, kernel->settings));
    TENON_ASSIGN_OR_RETURN(out, PluginInstance<AttentionKernel>::create(
                                    kernel->plugin, std::move(options), surroundings));
    return {};
  };
  if (second.runs_layers()) {
    TENON_RETURN_IF_ERROR(create(chosen.attention.get(), second.attention));
    TENON_RETURN_IF_ERROR(create(chosen.attention_decode.get(), second.attention_decode));
  }
  DraftRunnerParts parts;
  parts.executor = second.runs_layers() ? second.executor.get() : pipeline.executor.get();
  parts.shape = &second.shape->shape();
  parts.geometry = second.geometry;
  parts.first_group = pipeline.shape->shape().group_count;
  parts.max_rows = pipeline.limits.max_batch_tokens;
  parts.max_sequences = pipeline.limits.max_sequences;
  parts.head = second.head.get();
  parts.spare_blocks = second.spare_blocks;
  const bool blocks = parts.head != nullptr && parts.head->kind == HeadKind::dflash;
  if (blocks && parts.head->block_rows() > parts.max_rows) {
    return invalid_argument(
        pipeline.config.draft_model_path.origin.text() + ": the head drafts blocks of " +
        std::to_string(parts.head->block_rows()) + " rows, but limits.max_batch_tokens is " +
        std::to_string(parts.max_rows) + "; raise it");
  }
  second.runner = std::make_unique<DraftRunner>(parts);
  second.runner_view = second.runner.get();
  pipeline.extensions.add(std::string(kModelRunner), &second.runner_view);
  second.tree_view = second.runner.get();
  pipeline.extensions.add(std::string(kModelRunnerTree), &second.tree_view);
  pipeline.extensions.add(std::string(kModelRunnerShape), parts.shape);
  second.block_view = second.runner.get();
  if (second.runner->block_tokens() > 0) {
    pipeline.extensions.add(std::string(kModelRunnerBlock), &second.block_view);
  }
  if (second.head == nullptr) return {};
  pipeline.extensions.add(std::string(kDraftHead), &second.head_states);
  second.head_norm = &second.head->norm_before_residual;
  pipeline.extensions.add(std::string(kHeadNormBeforeResidual), &second.head_norm);
  pipeline.extensions.add(std::string(kDraftHeadKind), &second.head_kind);
  return {};
}

Status check_head(const BoundPlugins& pipeline) {
  if (!pipeline.second || pipeline.second->head == nullptr) return {};
  if (pipeline.extensions.asked(kDraftHead)) return {};
  const auto& path = pipeline.config.draft_model_path;
  return invalid_argument(
      path.origin.text() + ": drafter.model " + path_in_quotes(path.value) +
      " is a head, which drafts from the model's own states, but drafter " +
      double_quoted(pipeline.drafter.object().descriptor().id) +
      " runs whole models; set drafter.plugin = " + double_quoted(pipeline.second->head_kind));
}

Status load_second_model(BoundPlugins& pipeline, const LinearResolver& linear) {
  SecondModel& second = *pipeline.second;
  if (!second.runs_layers()) return {};
  ExecutorSetup setup;
  setup.model = second.model.get();
  setup.shape = &second.shape->shape();
  setup.geometry = second.geometry;
  setup.max_rows = pipeline.limits.max_batch_tokens;
  setup.max_sequences = pipeline.limits.max_sequences;
  setup.attention = kernels_of(pipeline, second.attention, second.attention_decode);
  setup.linear = linear;
  if (pipeline.shared_weights != nullptr) {
    setup.sharing = {pipeline.shared_weights, weight_files(*second.model)};
  }
  if (second.head != nullptr) {
    auto* host = dynamic_cast<HeadHost*>(second.executor.get());
    if (host == nullptr) {
      return unsupported("executor " + double_quoted(second.executor->name()) +
                         " runs no heads that draft; use executor \"cpu\" or \"ref\", or another "
                         "drafter");
    }
    host->take_head(*second.head);
  }
  const Status loaded = second.executor->load(setup);
  return loaded.ok() ? Status() : with_context("the second model", loaded);
}

}  // namespace tenon
