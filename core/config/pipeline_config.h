// A pipeline as its TOML file (and those it extends, and --set) describe it: every value with its
// origin, checked as far as that is possible without plugins and a model.
//
// Format: docs/formats/pipeline-toml.md.
#pragma once

#include <tenon/host.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/machine/cpu_features.h"
#include "core/base/origin.h"
#include "core/base/result.h"
#include "core/plugin/options.h"
#include "core/plugin/search.h"
#include "core/plugin/settings.h"
#include "core/request/sampling_keys.h"

namespace tenon {

// A value and where it was set; `origin` is empty for a default.
template <typename T>
struct Configured {
  T value{};
  Origin origin;
};

// [scheduler], [kv_cache], … : which plugin, and its options as they were written.
struct ComponentConfig {
  Configured<std::string> plugin;  // an id, or "auto" where the component allows it
  std::vector<Setting> options;
};

// [adapters]: a low-rank adapter that requests may name, with its folder.
struct NamedAdapter {
  std::string name;
  Configured<std::string> path;  // absolute, or relative to the current folder for --set
};

// How drafts are judged: as if there were none, or so that the distribution stays the same.
enum class DraftVerify : uint8_t { exact = 0, rejection = 1, typical = 2 };

// How far plugins are trusted; each level holds what those before it do (docs/guard.md).
//   off      what they answer is checked before it is used, as always
//   checks   calls are looked at more closely
//   isolate  and those of untrusted origin that can run in a process of their own do
enum class GuardLevel : uint8_t { off = 0, checks = 1, isolate = 2 };

// [[kv_cache.tiers]]: a place below the cache where K/V lies that outlives its sequence.
// A tier of kind plugin has that plugin, and its options.
enum class TierKind : uint8_t { none = 0, host = 1, disk = 2, plugin = 3 };
struct TierConfig : ComponentConfig {
  Configured<TierKind> kind;  // none = there is no such tier
  Configured<std::string> path;
  Configured<uint64_t> memory_bytes;  // how much may lie there; 0 = nobody said
};
inline constexpr size_t kMostTiers = 4;

// [disaggregation]: which part of a request a worker does, where others do the other part.
enum class DisaggregationRole : uint8_t { none = 0, prefill = 1, decode = 2, both = 3 };
struct DisaggregationConfig {
  Configured<DisaggregationRole> role;                       // none = there are no others
  Configured<std::string> address{"127.0.0.1:0", {}};        // where they fetch K/V
  Configured<std::string> peers{"localhost", {}};            // hosts that K/V is fetched from
  Configured<uint64_t> memory_bytes{uint64_t{1} << 30, {}};  // for K/V until it is fetched
  Configured<int64_t> lease_ns{int64_t{30} * 1'000'000'000, {}};
};

struct PipelineConfig {
  std::string path;  // of the outermost file; empty when it was read from text

  Configured<std::string> model_path;  // absolute, or relative to the current folder for --set
  Configured<std::string> model_as;    // the family to read an unknown model_type as; empty: none

  std::vector<NamedAdapter> adapters;  // by name

  Configured<std::string> executor{"cpu", {}};
  Configured<std::optional<uint32_t>> threads;  // null = auto: all cores
  Configured<std::optional<NamedIsa>> isa;      // null = auto: what the processor has
  Configured<bool> deterministic;               // refuse parts whose bits may depend on the batch
  // Of an executor's device, for steps that are captured and launched as one; 0 = none are.
  Configured<uint64_t> graph_memory_bytes{uint64_t{128} << 20, {}};

  // [parallel]: over how many processes every layer's matrices are cut; how many have the layers
  // one after the other; how many have experts of their own; and engines behind one server. 1 = one
  // has all.
  Configured<uint32_t> tensor_ranks{1, {}};
  Configured<uint32_t> pipeline_ranks{1, {}};
  Configured<uint32_t> expert_ranks{1, {}};
  Configured<uint32_t> data_replicas{1, {}};
  Configured<bool> reduce_ranks;  // what ranks make of parts of K is added up
  // Processes that run a pipeline together.
  uint32_t processes() const {
    return std::max(tensor_ranks.value, expert_ranks.value) * pipeline_ranks.value;
  }
  // Engines of a server: with stages as many as there are, so that each has a step to work on.
  uint32_t engines() const {
    return data_replicas.value > 1 ? data_replicas.value : pipeline_ranks.value;
  }
  // Of the executor "sim": the machine's name or file; the format of a model's weights that are not
  // there, empty = as they are; which share of drafts is kept, null = those that are what is drawn.
  Configured<std::string> machine;
  Configured<std::string> simulated_weights;
  Configured<std::optional<double>> simulated_acceptance;

  Configured<bool> plan_ahead;  // plan a step while the device computes the one before it
  // How long a scheduler may plan nothing on purpose while sequences wait (PlanOut::wake_ns).
  Configured<int64_t> wait_limit_ns{60'000'000'000, {}};

  Configured<GuardLevel> guard;
  // With GuardLevel::isolate: how long a call may take, how much memory a process may have, and the
  // scheduler that goes on where the isolated one cannot.
  Configured<int64_t> call_limit_ns{10'000'000'000, {}};
  Configured<uint64_t> process_memory_bytes{uint64_t{1} << 30, {}};
  Configured<std::string> fallback_scheduler{"continuous", {}};

  std::vector<Configured<std::string>> plugin_files;  // [plugins] load
  Configured<PluginPolicy> plugin_policy;
  Configured<std::string> plugin_key;  // with PluginPolicy::is_signed

  ComponentConfig scheduler, kv_cache, attention, state, linear, sampler;
  // Kernels of their own for prompts and for single rows; absent = `attention`.
  std::optional<ComponentConfig> attention_prefill, attention_decode;
  std::optional<ComponentConfig> drafter;    // absent = no speculation
  Configured<std::string> draft_model_path;  // as model_path; empty = the drafter needs none
  Configured<std::string> draft_text_path;   // likewise: a file of text for it to look in
  Configured<DraftVerify> draft_verify;

  Configured<std::optional<uint64_t>> kv_memory_bytes;  // null = auto
  Configured<std::optional<DType>> kv_dtype;            // null = auto: the weights' own type
  Configured<std::optional<uint32_t>> kv_block_tokens;  // null = auto
  Configured<uint64_t> kv_swap_bytes;                   // 0 = no swap pool

  std::array<TierConfig, kMostTiers> kv_tiers;  // the nearest first
  Configured<uint64_t> kv_io_budget_bytes{uint64_t{256} << 20, {}};
  DisaggregationConfig disaggregation;

  Configured<std::optional<uint32_t>> context_tokens;  // null = auto: the model's
  Configured<bool> exceed_model_context;               // context_tokens may be more than that
  Configured<uint32_t> max_sequences{32, {}};
  Configured<std::optional<uint32_t>> max_batch_tokens;  // null = auto

  // [generation]: what requests take when they say nothing. Null = the model's recommendation.
  Configured<std::optional<uint32_t>> max_tokens;
  Configured<std::optional<double>> temperature;
  Configured<std::optional<uint32_t>> top_k;
  Configured<std::optional<double>> top_p;
  Configured<std::optional<uint64_t>> seed;
  // The other numbers of sampling_keys(), in their order; those above are never set here.
  std::array<Configured<std::optional<double>>, kSamplingKeyCount> sampling;

  // Options that went away because a later file, or --set, names another plugin in their place.
  std::vector<Setting> dropped_options;

  // The component of a section ("scheduler", "attention.prefill"); null for an unknown one, and for
  // one that may be absent and is.
  const ComponentConfig* component(std::string_view section) const;
};

// The sections that name plugins, in the order of the file format.
std::span<const std::string_view> component_sections();

// Reads `path`, the files that it extends, `overrides` ("scheduler.plugin=static"), then `flags`,
// options of a program that stand for a key. Errors: every fault at once, a line each, led by
// file:line:column, by --set, or by the flag.
Result<PipelineConfig> load_pipeline_config(const std::string& path,
                                            const std::vector<std::string>& overrides,
                                            const std::vector<Setting>& flags = {});
// The same from text; relative paths are taken from `folder`, messages are led by `name`.
Result<PipelineConfig> parse_pipeline_config(std::string_view text, const std::string& name,
                                             const std::string& folder,
                                             const std::vector<std::string>& overrides,
                                             const std::vector<Setting>& flags = {});

// Options of a component with the plugin's defaults filled in, for the resolved dump.
struct ResolvedComponent {
  std::string section;  // "scheduler"
  std::string plugin;   // an id; "auto" replaced by what it chose
  std::vector<FilledOptions::Item> options;
};
// The configuration with every default and choice spelled out, as TOML in a stable order. With
// `origins` each line ends in a comment that says where its value is from.
std::string resolved_toml(const PipelineConfig& config,
                          const std::vector<ResolvedComponent>& components, bool origins);
// First 16 hex digits of the SHA-256 over resolved_toml without origins: equal for equal values,
// whatever the files, their order and their comments. Paths count by their last part alone, and
// the list of plugin files does not count, so that the hash is the same on another machine.
std::string config_hash(const PipelineConfig& config,
                        const std::vector<ResolvedComponent>& components);

}  // namespace tenon
