// All keys of a pipeline's configuration, each with the member that keeps it.
#include <algorithm>
#include <vector>

#include "core/base/threads/worker_pool.h"
#include "core/config/key_makers.h"
#include "core/config/schema.h"

namespace tenon {
namespace {

using namespace key_makers;

constexpr int64_t kMostTokens = kMostParameterTokens;
constexpr int64_t kMostThreads = WorkerPool::kMaxThreads;

// In the order of NamedIsa and of DType.
constexpr std::string_view kIsas[] = {"portable",    "avx2",        "avx_vnni", "avx512",
                                      "avx512_vnni", "avx512_bf16", "neon",     "neon_dotprod",
                                      "neon_i8mm",   "neon_bf16"};
constexpr std::string_view kVerifies[] = {"exact", "rejection", "typical"};
constexpr std::string_view kPolicies[] = {"open", "locked", "signed"};
constexpr std::string_view kGuards[] = {"off", "checks", "isolate"};
constexpr std::string_view kTierKinds[] = {"none", "host", "disk", "plugin"};
constexpr std::string_view kRoles[] = {"none", "prefill", "decode", "both"};
constexpr std::string_view kDTypes[] = {"f32", "f16", "bf16", "i8", "i4"};

// As a count of steps; away where it is 0.
ConfigKey plan_ahead() {
  ConfigKey made = whole<&PipelineConfig::plan_ahead>(
      "engine.plan_ahead", 0, 1, "steps",
      "steps planned while the device computes the one before; tokens are the same");
  made.optional = true;
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (!config.plan_ahead.value) return std::nullopt;
    OptionValue value;
    value.integer = 1;
    return value;
  };
  made.set = [](PipelineConfig& config, const OptionValue& value, const Origin& origin) {
    config.plan_ahead = {value.integer == 1, origin};
  };
  return made;
}

// Of drafts in a simulation; away unless it is set.
ConfigKey acceptance() {
  ConfigKey made = key<&PipelineConfig::simulated_acceptance>(
      "executor.acceptance", OptionType::real,
      "the share of draft tokens that the executor sim keeps");
  made.optional = true;
  made.spec.min_real = 0.0;
  made.spec.max_real = 1.0;
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (!config.simulated_acceptance.value) return std::nullopt;
    return Member<double>::to(*config.simulated_acceptance.value);
  };
  return made;
}

// Away where it is off.
ConfigKey guard() {
  ConfigKey made = choice<&PipelineConfig::guard>(
      "engine.guard", kGuards, "how closely plugins are watched; tokens are the same");
  made.optional = true;
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (config.guard.value == GuardLevel::off) return std::nullopt;
    return Member<GuardLevel>::to(config.guard.value);
  };
  return made;
}

ConfigKey drafter_verify() {
  ConfigKey made =
      choice<&PipelineConfig::draft_verify>("drafter.verify", kVerifies,
                                            "keeps every token as without drafts, or their "
                                            "distribution, or drafts that are likely enough");
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (!config.drafter) return std::nullopt;
    return Member<DraftVerify>::to(config.draft_verify.value);
  };
  return made;
}

// A key of one tier, "kv_cache.tiers.2.path", which stays away where there is no such tier, or
// nothing to say.
template <size_t index, auto member>
ConfigKey tier_key(std::string_view name, OptionType type, std::string_view sentence) {
  using T = std::remove_cvref_t<decltype((std::declval<TierConfig&>().*member).value)>;
  static const std::string kName =
      "kv_cache.tiers." + std::to_string(index + 1) + "." + std::string(name);
  ConfigKey made;
  made.spec.key = kName;
  made.spec.type = type;
  made.spec.sentence = sentence;
  made.optional = true;
  made.set = [](PipelineConfig& config, const OptionValue& value, const Origin& origin) {
    config.kv_tiers[index].*member = {Member<T>::from(value), origin};
  };
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    const TierConfig& tier = config.kv_tiers[index];
    if (tier.kind.value == TierKind::none || (tier.*member).value == T()) return std::nullopt;
    return Member<T>::to((tier.*member).value);
  };
  made.origin = [](const PipelineConfig& config) {
    return (config.kv_tiers[index].*member).origin;
  };
  return made;
}

template <size_t index>
void add_tier_keys(std::vector<ConfigKey>& keys) {
  ConfigKey kind = tier_key<index, &TierConfig::kind>("kind", OptionType::choice,
                                                      "where K/V lies that outlives its sequence");
  kind.spec.choices = kTierKinds;
  kind.spec.choice_count = std::size(kTierKinds);
  keys.push_back(kind);
  keys.push_back(tier_key<index, &TierConfig::plugin>(
      "plugin", OptionType::text, "keeps K/V of a tier of kind plugin, as it likes"));
  keys.push_back(tier_key<index, &TierConfig::path>("path", OptionType::path,
                                                    "folder of a tier of kind disk"));
  ConfigKey memory = tier_key<index, &TierConfig::memory_bytes>("memory", OptionType::bytes,
                                                                "how much may lie there");
  memory.spec.min = 1;
  memory.spec.max = int64_t{1} << 50;
  memory.spec.unit = "bytes";
  keys.push_back(memory);
}
template <size_t... indices>
std::vector<ConfigKey> tier_keys(std::index_sequence<indices...>) {
  std::vector<ConfigKey> keys;
  (add_tier_keys<indices>(keys), ...);
  return keys;
}

// A key of [disaggregation], away where it is what it is by itself.
template <auto member>
ConfigKey disaggregation_key(std::string_view name, OptionType type, std::string_view sentence) {
  using T = std::remove_cvref_t<decltype((std::declval<DisaggregationConfig&>().*member).value)>;
  ConfigKey made;
  made.spec.key = name;
  made.spec.type = type;
  made.spec.sentence = sentence;
  made.optional = true;
  static const T kDefault = (DisaggregationConfig().*member).value;
  made.spec.default_value = Member<T>::to(kDefault);
  made.set = [](PipelineConfig& config, const OptionValue& value, const Origin& origin) {
    config.disaggregation.*member = {Member<T>::from(value), origin};
  };
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if ((config.disaggregation.*member).value == kDefault) return std::nullopt;
    return Member<T>::to((config.disaggregation.*member).value);
  };
  made.origin = [](const PipelineConfig& config) { return (config.disaggregation.*member).origin; };
  return made;
}

std::vector<ConfigKey> disaggregation_keys() {
  using D = DisaggregationConfig;
  ConfigKey role = disaggregation_key<&D::role>(
      "disaggregation.role", OptionType::choice,
      "which part of requests is done here: prefill, decode or both, with other workers");
  role.spec.choices = kRoles;
  role.spec.choice_count = std::size(kRoles);
  ConfigKey memory = disaggregation_key<&D::memory_bytes>(
      "disaggregation.memory", OptionType::bytes, "K/V that waits to be fetched by other workers");
  memory.spec.min = 1;
  memory.spec.max = int64_t{1} << 50;
  memory.spec.unit = "bytes";
  ConfigKey lease = disaggregation_key<&D::lease_ns>(
      "disaggregation.lease", OptionType::duration,
      "how long K/V is kept, or waited for, of which nothing is heard");
  lease.spec.min = 10'000'000;
  lease.spec.max = int64_t{3600} * 1'000'000'000;
  return {role,
          disaggregation_key<&D::address>("disaggregation.address", OptionType::text,
                                          "where other workers fetch K/V: HOST:PORT, unix:PATH or "
                                          "memory:PATH"),
          disaggregation_key<&D::peers>("disaggregation.peers", OptionType::text,
                                        "hosts and networks that K/V may be fetched from"),
          memory, lease};
}

// The numbers of sampling that have no member of their own.
template <size_t index>
void add_sampling_key(std::vector<ConfigKey>& keys) {
  static const std::string kName = "generation." + std::string(sampling_keys()[index].name);
  const SamplingKey& known = sampling_keys()[index];
  if (known.name == "temperature" || known.name == "top_k" || known.name == "top_p") return;
  ConfigKey made;
  made.spec.key = kName;
  describe_parameter(made, parameter(known.name));
  made.spec.default_value.automatic = true;
  made.set = [](PipelineConfig& config, const OptionValue& value, const Origin& origin) {
    const bool whole = parameter(sampling_keys()[index].name).number.whole;
    config.sampling[index] = {whole ? static_cast<double>(value.integer) : value.real, origin};
  };
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    OptionValue value;
    const auto& set = config.sampling[index].value;
    value.automatic = !set;
    value.real = set.value_or(0.0);
    value.integer = static_cast<int64_t>(set.value_or(0.0));
    return value;
  };
  made.origin = [](const PipelineConfig& config) { return config.sampling[index].origin; };
  keys.push_back(made);
}
template <size_t... indices>
void add_sampling_keys(std::vector<ConfigKey>& keys, std::index_sequence<indices...>) {
  (add_sampling_key<indices>(keys), ...);
}

std::vector<ConfigKey> make_keys() {
  using C = PipelineConfig;
  std::vector<ConfigKey> keys = {
      path<&C::model_path>("model.path", "folder of the model"),
      unless_default<&C::model_as>(
          key<&C::model_as>("model.as", OptionType::text,
                            "family whose arithmetic runs a model_type that none is for")),
      with_default(
          key<&C::executor>("executor.plugin", OptionType::text,
                            "what runs the model: cpu, ref (slow, exact), or sim (a simulation)"),
          "cpu"),
      or_auto(whole<&C::threads>("executor.threads", 1, kMostThreads, "threads",
                                 "workers of an executor on the host")),
      or_auto(choice<&C::isa>("executor.isa", kIsas, "highest instruction set to use")),
      off_unless_set<&C::deterministic>(
          "executor.deterministic",
          "refuses parts whose results may depend on what else is in the batch"),
      unless_default<&C::graph_memory_bytes>(whole<&C::graph_memory_bytes>(
          "executor.graph_memory", 0, int64_t{1} << 40, "bytes",
          "device memory for captured steps, of an executor that captures any; 0 = none are",
          OptionType::bytes)),
      unless_default<&C::tensor_ranks>(with_default(
          whole<&C::tensor_ranks>("parallel.tensor", 1, 64, "processes",
                                  "processes that every layer's matrices are cut over"),
          1)),
      unless_default<&C::pipeline_ranks>(
          with_default(whole<&C::pipeline_ranks>("parallel.pipeline", 1, 64, "processes",
                                                 "processes that have the layers in turn"),
                       1)),
      unless_default<&C::expert_ranks>(
          with_default(whole<&C::expert_ranks>("parallel.expert", 1, 64, "processes",
                                               "processes that have experts of their own"),
                       1)),
      unless_default<&C::data_replicas>(
          with_default(whole<&C::data_replicas>("parallel.data", 1, 64, "engines",
                                                "engines behind one server, with the same model"),
                       1)),
      off_unless_set<&C::reduce_ranks>(
          "parallel.reduce", "cuts K as well, and adds up what processes make; other bits"),
      unless_default<&C::machine>(
          key<&C::machine>("executor.machine", OptionType::text,
                           "the machine that the executor sim simulates: a name or a file")),
      unless_default<&C::simulated_weights>(key<&C::simulated_weights>(
          "executor.weights", OptionType::text,
          "the format of weights that are not there, for the executor sim")),
      acceptance(),
      plan_ahead(),
      unless_default<&C::wait_limit_ns>(whole<&C::wait_limit_ns>(
          "engine.wait_limit", 1'000'000, int64_t{3600} * 1'000'000'000, "",
          "how long a scheduler may let sequences wait on purpose", OptionType::duration)),
      guard(),
      isolating<&C::call_limit_ns>(whole<&C::call_limit_ns>(
          "engine.call_limit", 1'000'000, int64_t{3600} * 1'000'000'000, "",
          "how long a call of an isolated plugin may take", OptionType::duration)),
      isolating<&C::process_memory_bytes>(whole<&C::process_memory_bytes>(
          "engine.process_memory", int64_t{64} << 20, int64_t{1} << 50, "bytes",
          "memory of an isolated plugin's process", OptionType::bytes)),
      isolating<&C::fallback_scheduler>(
          key<&C::fallback_scheduler>("engine.fallback.scheduler", OptionType::text,
                                      "goes on where an isolated scheduler cannot")),
      beside_load(choice<&C::plugin_policy>("plugins.policy", kPolicies,
                                            "which plugin files may be loaded")),
      beside_load(key<&C::plugin_key>("plugins.key", OptionType::text,
                                      "minisign's public key of plugins that are signed")),
      plugin<&C::scheduler>("scheduler.plugin", "continuous",
                            "decides which sequence computes what"),
      plugin<&C::kv_cache>("kv_cache.plugin", "paged", "hands out KV blocks"),
      or_auto(whole<&C::kv_memory_bytes>("kv_cache.memory", 1, int64_t{1} << 50, "bytes",
                                         "memory for K and V", OptionType::bytes)),
      or_auto(choice<&C::kv_dtype>("kv_cache.dtype", kDTypes, "element type of stored K and V")),
      or_auto(whole<&C::kv_block_tokens>("kv_cache.block_tokens", 1, kMostTokens, "tokens",
                                         "tokens of one KV block")),
      whole<&C::kv_swap_bytes>("kv_cache.swap_memory", 0, int64_t{1} << 50, "bytes",
                               "host memory for K and V of preempted sequences; 0 = no pool",
                               OptionType::bytes),
      unless_default<&C::kv_io_budget_bytes>(whole<&C::kv_io_budget_bytes>(
          "kv_cache.io_budget", 1, int64_t{1} << 50, "bytes",
          "K/V on its way to and from tiers at once", OptionType::bytes)),
      plugin<&C::attention>("attention.plugin", "auto", "computes attention"),
      optional_plugin<&C::attention_prefill>("attention.prefill.plugin",
                                             "computes attention of prompts instead"),
      optional_plugin<&C::attention_decode>(
          "attention.decode.plugin", "computes attention of single rows and of drafts instead"),
      plugin<&C::state>("state.plugin", "auto", "runs recurrent layers, where the model has any"),
      plugin<&C::linear>("linear.plugin", "auto", "multiplies by weights"),
      or_auto(whole<&C::context_tokens>("limits.context_tokens", 1, kMostTokens, "tokens",
                                        "longest sequence, prompt and generated")),
      off_unless_set<&C::exceed_model_context>(
          "limits.exceed_model_context", "lets context_tokens be more than the model was made for"),
      with_default(whole<&C::max_sequences>("limits.max_sequences", 1, 4096, "sequences",
                                            "sequences that run at once"),
                   32),
      or_auto(whole<&C::max_batch_tokens>("limits.max_batch_tokens", 1, 1 << 20, "tokens",
                                          "tokens of one step")),
      plugin<&C::sampler>("sampler.plugin", "standard", "turns logits into tokens"),
      optional_plugin<&C::drafter>("drafter.plugin",
                                   "proposes tokens to verify; absent or \"none\": no speculation"),
      path<&C::draft_model_path>("drafter.model",
                                 "folder of the second model, for drafters that run one"),
      path<&C::draft_text_path>("drafter.text", "file of text, for drafters that look in one"),
      drafter_verify(),
      generation<&C::max_tokens>("generation.max_tokens"),
      generation<&C::temperature>("generation.temperature"),
      generation<&C::top_k>("generation.top_k"),
      generation<&C::top_p>("generation.top_p"),
      generation<&C::seed>("generation.seed"),
  };
  const auto after = std::ranges::find(keys, "attention.plugin",
                                       [](const ConfigKey& key) { return key.spec.key; });
  const std::vector<ConfigKey> tiers = tier_keys(std::make_index_sequence<kMostTiers>());
  keys.insert(after, tiers.begin(), tiers.end());
  const std::vector<ConfigKey> disaggregation = disaggregation_keys();
  keys.insert(std::ranges::find(keys, "attention.plugin",
                                [](const ConfigKey& key) { return key.spec.key; }),
              disaggregation.begin(), disaggregation.end());
  add_sampling_keys(keys, std::make_index_sequence<kSamplingKeyCount>());
  return keys;
}

}  // namespace

std::span<const ConfigKey> config_keys() {
  static std::vector<ConfigKey> keys = make_keys();
  return keys;
}

std::string_view guard_level_name(GuardLevel level) {
  return kGuards[static_cast<size_t>(level)];
}

}  // namespace tenon
