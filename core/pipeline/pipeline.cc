#include "core/pipeline/pipeline.h"

#include <tenon/extensions/step_costs.h>

#include <algorithm>
#include <new>

#include "core/base/log.h"
#include "core/base/machine/cpu_features.h"
#include "core/base/machine/system_memory.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/contract/contract.h"
#include "core/engine/answers/row_draws.h"
#include "core/pipeline/advice.h"
#include "core/pipeline/composing/composing.h"
#include "core/pipeline/grammar_vocabulary.h"
#include "core/pipeline/rank_parts.h"
#include "core/pipeline/text_ends.h"
#include "core/request/sampling_keys.h"

namespace tenon {
namespace {

// Rows of a step when nothing is configured: enough to use a processor fully, and a bound on the
// memory that activations take.
constexpr uint32_t kAutoBatchTokens = 2048;

class TokenizerDecoder final : public TextDecoder {
 public:
  // What follows a prompt is not the beginning of a text: a tokenizer that drops the space in
  // front of a text must not drop it here. The prompt's last tokens are enough to know.
  TokenizerDecoder(const Tokenizer& tokenizer, std::span<const TokenId> prompt)
      : stream_(tokenizer) {
    constexpr size_t kContextTokens = 8;
    for (const TokenId token : prompt.last(std::min(prompt.size(), kContextTokens))) {
      static_cast<void>(stream_.push(token));
    }
  }
  void push(TokenId token, std::string& text) override { text += stream_.push(token); }
  void finish(std::string& text) override { text += stream_.finish(); }

 private:
  StreamingDetokenizer stream_;
};

Status open_adapters(OpenedModels& pipeline) {
  for (const NamedAdapter& adapter : pipeline.config.adapters) {
    Result<std::unique_ptr<Adapter>> opened =
        open_adapter(adapter.name, adapter.path.value, *pipeline.model);
    if (!opened.ok()) {
      return with_context(adapter.path.origin.text() + ": adapter " + in_quotes(adapter.name),
                          opened.status());
    }
    pipeline.adapters.push_back(*std::move(opened));
  }
  return {};
}

// Drafts are guesses at the next token, and an answer by diffusion has none.
Status refuse_drafter(const PipelineConfig& config, const Model& model) {
  if (!config.drafter || !model.plan.mask_token) return {};
  return unsupported(config.drafter->plugin.origin.text() + ": there is a [drafter], but the " +
                     model.plan.architecture +
                     " model generates by diffusion, which has no next token to draft; remove it");
}

// Of a plan that is only shown, the parts of all ranks, and rank 0's to go on with.
Status cut_models(const PipelineRequest& request, OpenedModels& pipeline) {
  pipeline.parameters = pipeline.model->parameter_count();
  const uint32_t ranks = request.config.processes();
  if (!request.load_weights && ranks > 1) {
    const auto cut = [&](Model& model, uint32_t rank) {
      return cut_for_rank(request, model, rank);
    };
    const RankMemory memory =
        request.config.executor.value == "cuda" ? RankMemory::device : RankMemory::host;
    TENON_ASSIGN_OR_RETURN(pipeline.rank_parts,
                           parts_of_ranks(*pipeline.model, ranks, memory, cut));
  }
  const uint32_t rank = request.ranks != nullptr ? request.ranks->rank() : 0;
  TENON_ASSIGN_OR_RETURN(pipeline.cut, cut_for_rank(request, *pipeline.model, rank));
  return {};
}

Status open_inputs(const PipelineRequest& request, OpenedModels& pipeline) {
  pipeline.config = request.config;
  pipeline.host = request.host;
  pipeline.shared_weights = request.shared_weights;
  pipeline.ranks = request.ranks;
  TENON_RETURN_IF_ERROR(check_ranks(request));
  if (request.clock != nullptr) pipeline.clock = request.clock;
  if (request.virtual_clock != nullptr) pipeline.clock = request.virtual_clock;
  pipeline.virtual_clock = request.virtual_clock;
  if (const auto isa = request.config.isa.value) {
    const Status fits = check_chosen_isa(pipeline.host.cpu, features_of(*isa));
    if (!fits.ok()) return with_context(request.config.isa.origin.text(), fits);
    pipeline.host.cpu = lowered(pipeline.host.cpu, features_of(*isa));
    // Asked for by name, bf16 dot products are used also where FMA would be faster.
    if (*isa == NamedIsa::avx512_bf16 || *isa == NamedIsa::neon_bf16) {
      pipeline.host.slow_bf16_dot = false;
    }
  }
  if (const auto threads = request.config.threads.value) pipeline.host.workers = *threads;
  const auto& path = request.config.model_path;
  if (path.value.empty()) {
    return invalid_argument(
        "no model is configured; set model.path to a model's folder or GGUF file");
  }
  const std::string& as = request.config.model_as.value;
  Result<std::unique_ptr<Model>> model =
      request.open ? request.open(path.value, as) : open_model(path.value, as);
  if (!model.ok()) return with_context(path.origin.text(), model.status());
  pipeline.model = *std::move(model);
  TENON_RETURN_IF_ERROR(open_adapters(pipeline));
  TENON_RETURN_IF_ERROR(cut_models(request, pipeline));
  TENON_RETURN_IF_ERROR(refuse_drafter(request.config, *pipeline.model));
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(path.value);
  if (tokenizer.ok()) {
    pipeline.tokenizer = *std::move(tokenizer);
  } else {
    pipeline.tokenizer_problem = tokenizer.take_status();
    // A model without one is no accident; one that cannot be read may be.
    if (pipeline.tokenizer_problem.code() != StatusCode::not_found) {
      log(LogLevel::warning, "tokenizer",
          "the model takes token ids alone, no text: " + message_of(pipeline.tokenizer_problem));
    }
  }
  pipeline.ends = text_ends(*pipeline.model, pipeline.tokenizer.get());
  return open_second_model(request, pipeline);
}

Status set_limits(OpenedModels& pipeline) {
  const PipelineConfig& config = pipeline.config;
  const uint32_t most = pipeline.model->plan.context_tokens;
  const uint32_t context = config.context_tokens.value.value_or(most);
  if (context > most && !config.exceed_model_context.value) {
    return invalid_argument(config.context_tokens.origin.text() + ": limits.context_tokens is " +
                            std::to_string(context) + ", but the model's context is " +
                            std::to_string(most) +
                            "; set that or less, or limits.exceed_model_context = true (what the "
                            "model says beyond its context may make no sense)");
  }
  if (context > most && pipeline.model->plan.learned_positions) {
    return unsupported(config.context_tokens.origin.text() + ": limits.context_tokens is " +
                       std::to_string(context) + ", but the model has learned positions for " +
                       std::to_string(most) + " tokens alone; set that or less");
  }
  SchedulerLimits& limits = pipeline.limits;
  limits.context_tokens = context;
  limits.max_sequences = config.max_sequences.value;
  const uint32_t automatic = std::max(std::min(context, kAutoBatchTokens), limits.max_sequences);
  limits.max_batch_tokens = config.max_batch_tokens.value.value_or(automatic);
  if (limits.max_batch_tokens < limits.max_sequences) {
    return invalid_argument(
        config.max_batch_tokens.origin.text() + ": limits.max_batch_tokens is " +
        std::to_string(limits.max_batch_tokens) + ", less than limits.max_sequences, " +
        std::to_string(limits.max_sequences) +
        "; each running sequence needs one token a step: raise it");
  }
  ModelPlan plan = pipeline.model->plan;
  plan.context_tokens = std::max(most, context);
  pipeline.shape = std::make_unique<ModelShapeStorage>(plan, context);
  if (pipeline.second) {
    SecondModel& second = *pipeline.second;
    second.shape = std::make_unique<ModelShapeStorage>(second.model->plan, context);
    pipeline.joint_shape =
        std::make_unique<ModelShapeStorage>(pipeline.shape->shape(), second.shape->shape());
  }
  return {};
}

Result<ExecutorFactory> executor_factory(const PipelineRequest& request) {
  const auto& name = request.config.executor;
  const auto built_in = request.executors.find(name.value);
  if (built_in != request.executors.end()) return built_in->second;
  std::vector<std::string> known;
  for (const auto& [id, factory] : request.executors) known.push_back(id);
  const std::string instead = "; expected one of " + join(known) + did_you_mean(name.value, known);
  if (!request.find_executor) {
    return not_found(name.origin.text() + ": there is no executor \"" + name.value + "\"" +
                     instead);
  }
  auto found = request.find_executor(name.value);
  if (found.ok()) return found;
  const bool missing = found.status().code() == StatusCode::not_found;
  return Status::error(
      found.status().code(),
      name.origin.text() + ": " + message_of(found.status()) + (missing ? instead : ""));
}

Status make_executor(const PipelineRequest& request, PlacedModels& pipeline) {
  const auto& name = request.config.executor;
  TENON_ASSIGN_OR_RETURN(const ExecutorFactory factory, executor_factory(request));
  auto made = factory(pipeline.host);
  if (!made.ok()) return with_context(name.origin.text(), made.status());
  pipeline.executor = *std::move(made);
  TENON_RETURN_IF_ERROR(invite_guest(pipeline.config, *pipeline.executor));
  pipeline.host.workers = pipeline.executor->workers();
  if (!pipeline.adapters.empty() && !pipeline.executor->takes_adapters()) {
    return unsupported(pipeline.config.adapters.front().path.origin.text() +
                       ": there are [adapters], but the executor " + in_quotes(name.value) +
                       " runs the base model only; remove them, or choose executor.plugin = "
                       "\"cpu\"");
  }
  if (pipeline.second && pipeline.second->runs_layers()) {
    TENON_ASSIGN_OR_RETURN(pipeline.second->executor, pipeline.executor->sibling());
  }
  return join_ranks(pipeline);
}

NamedState state_kernel_of(BoundPlugins& pipeline) {
  if (!pipeline.state) return {};
  const std::string id(pipeline.state.object().descriptor().id);
  pipeline.checked_state =
      std::make_unique<CheckedState>(*pipeline.state, id, call_checks(pipeline.config));
  return {pipeline.checked_state.get(), id};
}

// What each rank does alone, up to its weights.
Status load_weights(const PipelineRequest& request, Pipeline& pipeline, ChosenPlugins& chosen) {
  ExecutorSetup setup;
  setup.model = pipeline.model.get();
  setup.shape = &pipeline.shape->shape();
  setup.geometry = pipeline.geometry;
  setup.geometry.group_count = setup.shape->group_count;
  setup.max_rows = pipeline.limits.max_batch_tokens;
  setup.max_sequences = pipeline.limits.max_sequences;
  setup.attention = kernels_of(pipeline, pipeline.attention, pipeline.attention_decode);
  setup.state = state_kernel_of(pipeline);
  if (pipeline.executor->uses_kernels()) {
    setup.linear = make_linear_resolver(pipeline, chosen, *request.registry);
  }
  setup.progress = request.progress;
  setup.graph_bytes = pipeline.config.graph_memory_bytes.value;
  std::vector<const Adapter*> adapters;
  for (const auto& adapter : pipeline.adapters) adapters.push_back(adapter.get());
  setup.adapters = adapters;
  if (pipeline.shared_weights != nullptr) {
    setup.sharing = {pipeline.shared_weights, weight_files(pipeline)};
  }
  if (pipeline.scores != nullptr) setup.scored = scored_groups(*setup.shape);
  TENON_RETURN_IF_ERROR(pipeline.executor->load(setup));
  return pipeline.second ? load_second_model(pipeline, setup.linear) : Status();
}

Status load_within_memory(const PipelineRequest& request, Pipeline& pipeline,
                          ChosenPlugins& chosen) {
  try {
    return load_weights(request, pipeline, chosen);
  } catch (const std::bad_alloc&) {
    return out_of_memory("the system grants this process no memory for its part of the model");
  }
}

Status join_others(Pipeline& pipeline) {
  pipeline.numerics =
      pipeline.executor->numerics() + " kv=" + std::string(dtype_name(pipeline.kv_dtype));
  if (pipeline.eviction) pipeline.numerics += "," + pipeline.evicts;
  // Which tokens are kept then depends on what was drafted.
  const ResolvedFact* verify = pipeline.facts.find("sampler.verify");
  if (verify != nullptr && verify->word == "typical") pipeline.numerics += " verify=typical";
  return lead_or_follow(pipeline);
}

// A row's bits are the same as part of a prompt and alone only where both kernels make the same.
Status settle_numerics(StrategyPlugins& pipeline, const ChosenPlugin& decode) {
  const std::string of_prompts = one_line(pipeline.attention->numerics());
  const std::string of_rows = one_line(pipeline.attention_decode->numerics());
  if (of_prompts == of_rows) return {};
  if (pipeline.config.deterministic.value) {
    return invalid_argument(
        pipeline.config.deterministic.origin.text() +
        ": executor.deterministic is true, but attention of prompts computes as \"" + of_prompts +
        "\" and that of single rows, " + decode.origin.text() + ", as \"" + of_rows +
        "\"; use one kernel for both, or executor.deterministic = false");
  }
  pipeline.facts.lower("numerics.rows", "batch",
                       {"attention of single rows",
                        "\"" + of_rows + "\" beside \"" + of_prompts + "\"", decode.origin.text()});
  pipeline.fact_view = pipeline.facts.facts();
  return {};
}

}  // namespace

PluginSurroundings surroundings_of(const NegotiatedPipeline& pipeline) {
  return {.host = &pipeline.host,
          .clock = pipeline.clock,
          .facts = &pipeline.fact_view,
          .extensions = &pipeline.extensions};
}

namespace {

Status create_strategies(StrategyPlugins& pipeline, ChosenPlugins& chosen) {
  // First, since what two kernels say may lower a fact that all others are shown.
  if (chosen.attention) {
    TENON_RETURN_IF_ERROR(create_plugin(pipeline, *chosen.attention, pipeline.attention));
  }
  if (chosen.attention_decode) {
    TENON_RETURN_IF_ERROR(
        create_plugin(pipeline, *chosen.attention_decode, pipeline.attention_decode));
    TENON_RETURN_IF_ERROR(settle_numerics(pipeline, *chosen.attention_decode));
  }
  if (chosen.state) TENON_RETURN_IF_ERROR(create_plugin(pipeline, *chosen.state, pipeline.state));
  TENON_RETURN_IF_ERROR(create_plugin(pipeline, chosen.scheduler, pipeline.scheduler));
  TENON_RETURN_IF_ERROR(create_fallback(pipeline, chosen, surroundings_of(pipeline)));
  TENON_RETURN_IF_ERROR(create_plugin(pipeline, chosen.kv_cache, pipeline.kv_cache));
  return learn_eviction(pipeline);
}

Status create_others(BoundPlugins& pipeline, ChosenPlugins& chosen) {
  if (pipeline.second) {
    TENON_RETURN_IF_ERROR(create_second_model(pipeline, chosen, surroundings_of(pipeline)));
  }
  TENON_RETURN_IF_ERROR(create_plugin(pipeline, chosen.sampler, pipeline.sampler));
  if (chosen.drafter) {
    TENON_RETURN_IF_ERROR(read_draft_text(pipeline));
    pipeline.extensions.add(std::string(kStepCosts), &pipeline.step_costs_view);
    TENON_RETURN_IF_ERROR(create_plugin(pipeline, *chosen.drafter, pipeline.drafter));
    TENON_RETURN_IF_ERROR(check_draft_text(pipeline));
    TENON_RETURN_IF_ERROR(check_head(pipeline));
    TENON_RETURN_IF_ERROR(bind_drafter(pipeline));
    TENON_RETURN_IF_ERROR(check_shown_to_drafter(pipeline));
  }
  TENON_RETURN_IF_ERROR(create_linear(pipeline, chosen));
  return bind_kv_cache(pipeline);
}

}  // namespace

// Executors use kernels, and a drafter may use the second model: whoever uses another ends first.
Pipeline::~Pipeline() {
  tiers.reset();
  transfer.reset();
  executor.reset();
  drafter = {};
  sampler = {};
  second.reset();
}

uint64_t Pipeline::kv_bytes() const {
  const bool both = second && second->runs_layers();
  return executor->kv_bytes() + (both ? second->executor->kv_bytes() : 0);
}

uint64_t OpenedModels::weight_bytes() const {
  uint64_t bytes = model->weight_bytes() + (second ? second->model->weight_bytes() : 0);
  for (const auto& adapter : adapters) bytes += adapter->weight_bytes();
  return bytes;
}

EngineParts Pipeline::parts() {
  EngineParts made;
  made.scheduler = scheduler.get();
  made.plan_refused = refusal_of_plans(*this);
  made.kv_cache = kv_cache.get();
  made.eviction = eviction ? &*eviction : nullptr;
  made.scores = scores;
  made.tiers = tiers.get();
  made.transfer = transfer.get();
  made.steady_plans = scheduler.extension<SteadyPlans>(kSteadyPlans);
  made.decodes_first = scheduler.extension<DecodesFirst>(kDecodesFirst);
  made.kv_decodes = kv_cache.extension<KvDecodes>(kKvDecodes);
  made.sampler = sampler.get();
  made.drafter = drafter.get();
  if (second) made.draft_runner = second->runner.get();
  const ResolvedFact* verify = facts.find("sampler.verify");
  made.verify_by_rejection = verify != nullptr && verify->word == "rejection";
  const ResolvedFact* drafts = facts.find("draft.shape");
  made.draft_trees = drafts != nullptr && drafts->word == "tree";
  const ResolvedFact* trees = facts.find("sampler.trees");
  made.trees_by_rejection =
      made.verify_by_rejection && trees != nullptr && trees->word == "rejection";
  made.hidden_layers = hidden_layers;
  made.hidden_drawn_only = hidden_drawn_only;
  if (drafter.get() != nullptr) made.prompt_states = drafter.extension<PromptStates>(kPromptStates);
  for (const auto& adapter : adapters) made.adapters.push_back(adapter->name);
  const PluginDescriptor& sampling = sampler.object().descriptor();
  made.sampler_params = words_provided(sampling, "sampler.params");
  made.sampler_stages = words_provided(sampling, "sampler.stages");
  made.sampler_logprobs = most_provided(sampling, "sampler.logprobs");
  if (const auto* order = sampler.extension<std::string_view>(kRowDraws)) {
    Result<std::vector<SamplingStage>> stages = parse_sampling_order(*order);
    if (stages.ok()) made.draw_order = *std::move(stages);
  }
  made.executor = executor.get();
  made.shape = &shape->shape();
  made.geometry = geometry;
  made.limits = limits;
  made.clock = clock;
  if (tokenizer != nullptr) {
    made.text = [tokens = tokenizer.get()](const Request& request) {
      return std::make_unique<TokenizerDecoder>(*tokens, request.prompt);
    };
  }
  made.eos_tokens = end_tokens(ends);
  made.mask_token = model->plan.mask_token.value_or(kNoToken);
  if (tokenizer != nullptr) {
    made.grammar_vocabulary =
        grammar_vocabulary(*tokenizer, made.shape->vocabulary, made.eos_tokens);
  }
  made.scheduler_name = scheduler.object().descriptor().id;
  made.kv_cache_name = kv_cache.object().descriptor().id;
  made.sampler_name = sampler.object().descriptor().id;
  if (drafter) made.drafter_name = drafter.object().descriptor().id;
  return made;
}

EngineOptions Pipeline::engine_options() const {
  EngineOptions options;
  options.plan_ahead = config.plan_ahead.value;
  options.check_calls = config.guard.value != GuardLevel::off;
  options.longest_wait_ns = config.wait_limit_ns.value;
  return options;
}

std::vector<std::pair<std::string, const PluginObject*>> Pipeline::plugins() const {
  std::vector<std::pair<std::string, const PluginObject*>> all;
  const auto add = [&all](const char* word, const auto& instance) {
    if (instance) all.emplace_back(word, &instance.object());
  };
  add("scheduler", scheduler);
  add("kv_cache", kv_cache);
  add("attention", attention);
  add("attention.decode", attention_decode);
  add("state", state);
  for (const auto& kernel : linear) add("linear", kernel);
  add("sampler", sampler);
  add("drafter", drafter);
  for (const auto& store : kv_stores) add("kv_store", store->plugin);
  return all;
}

namespace {

// Up to the plan of memory, on which ranks agree.
Status plan_memory(const PipelineRequest& request, Pipeline& pipeline, ChosenPlugins& chosen) {
  TENON_RETURN_IF_ERROR(open_inputs(request, pipeline));
  TENON_RETURN_IF_ERROR(set_limits(pipeline));
  TENON_RETURN_IF_ERROR(make_executor(request, pipeline));
  TENON_ASSIGN_OR_RETURN(chosen, choose_plugins(request, pipeline));
  TENON_RETURN_IF_ERROR(check_second_model(request.config, chosen));
  TENON_ASSIGN_OR_RETURN(
      pipeline.facts,
      negotiate_pipeline(request, pipeline.host, *pipeline.model, *pipeline.executor,
                         pipeline.limits.context_tokens, chosen));
  if (pipeline.second) TENON_RETURN_IF_ERROR(fit_second_model(request, pipeline, chosen));
  pipeline.fact_view = pipeline.facts.facts();
  TENON_RETURN_IF_ERROR(create_strategies(pipeline, chosen));
  TENON_RETURN_IF_ERROR(check_what_ranks_run(pipeline));
  return plan_kv_memory(request, pipeline);
}

Status prepare_to_load(const PipelineRequest& request, Pipeline& pipeline, ChosenPlugins& chosen) {
  TENON_RETURN_IF_ERROR(create_others(pipeline, chosen));
  pipeline.advice = followed_advice(pipeline);
  warn_of_unused(pipeline.advice);
  TENON_RETURN_IF_ERROR(check_tiers(request, pipeline));
  if (request.planned) request.planned(pipeline);
  return {};
}

}  // namespace

Result<std::unique_ptr<Pipeline>> build_pipeline(PipelineRequest request) {
  auto pipeline = std::make_unique<Pipeline>();
  if (request.available_memory_bytes == 0) {
    request.available_memory_bytes = available_memory_bytes();
  }
  if (request.total_memory_bytes == 0) request.total_memory_bytes = total_memory_bytes();
  guard_registry(request);
  share_memory_with_ranks(request);
  ChosenPlugins chosen;
  TENON_RETURN_IF_ERROR(agree_on_plan(*pipeline, plan_memory(request, *pipeline, chosen)));
  Status ready = prepare_to_load(request, *pipeline, chosen);
  if (request.load_weights) {
    if (ready.ok()) ready = load_within_memory(request, *pipeline, chosen);
    TENON_RETURN_IF_ERROR(agree_on_load(*pipeline, std::move(ready)));
    TENON_RETURN_IF_ERROR(join_others(*pipeline));
    TENON_RETURN_IF_ERROR(measure_steps(*pipeline));
    TENON_RETURN_IF_ERROR(open_tiers(request, *pipeline));
  } else if (!ready.ok()) {
    return ready;
  }
  pipeline->hash = config_hash(pipeline->config, pipeline->components);
  return pipeline;
}

}  // namespace tenon
