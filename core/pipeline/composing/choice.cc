// Which plugins a configuration means, and whether they can agree.
#include <algorithm>
#include <limits>
#include <set>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/composing/composing.h"
#include "core/plugin/facts/fact_words.h"

namespace tenon {
namespace {

void add_weight_formats(const Model& model, std::set<std::string>& formats) {
  formats.insert({model.embedding.format, model.head.format});
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) formats.insert(weight->format);
  }
}

void add_adapter_formats(const Adapter& adapter, std::set<std::string>& formats) {
  for (const AdapterMatrix& matrix : adapter.matrices) {
    formats.insert({matrix.a.format, matrix.b.format});
  }
}

Participant describe(std::string role, const PluginRef& plugin, const Origin& origin) {
  const PluginDescriptor& descriptor = *plugin.descriptor;
  Participant made{.role = std::move(role),
                   .name = std::string(descriptor.id),
                   .origin = origin,
                   .provides = {},
                   .requirements = {}};
  made.provides.assign(descriptor.provides, descriptor.provides + descriptor.provide_count);
  made.requirements.assign(descriptor.requirements,
                           descriptor.requirements + descriptor.requirement_count);
  return made;
}

bool provides_word(const PluginDescriptor& descriptor, std::string_view key,
                   std::string_view word) {
  const std::vector<std::string> words = words_provided(descriptor, key);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// For --log-level debug.
void tell_choice(const std::string& section, const ComponentConfig& component,
                 const PluginRef& plugin) {
  const bool automatic = component.plugin.value == "auto";
  log(LogLevel::debug, "pipeline",
      section + ": '" + std::string(plugin.descriptor->id) + "' of '" + plugin.library->path +
          "' – " + (automatic ? "auto: the best score" : component.plugin.origin.text()));
}

// Chooses section by section and collects what is wrong with any of them.
class Chooser {
 public:
  Chooser(const PipelineRequest& request, const HostFacts& host) : request_(request), host_(host) {}

  void choose(const char* section, std::string_view interface, const ComponentConfig& component,
              ChosenPlugin& out) {
    out.section = section;
    out.origin = component.plugin.origin;
    out.settings = component.options;
    out.automatic = component.plugin.value == "auto";
    const std::vector<PluginRef> found = candidates(interface, component);
    if (found.empty()) return;
    out.plugin = found.front();
    tell_choice(section, component, out.plugin);
    auto options = fill_options(*out.plugin.descriptor, component.options);
    if (options.ok()) {
      out.options = *std::move(options);
    } else {
      faults_.push_back(options.take_status());
    }
  }

  // For each format of the models' weights, the kernels that say they take it, best first.
  void choose_linear(const std::set<std::string>& formats, std::vector<LinearChoice>& out) {
    const std::vector<PluginRef> plugins = candidates(kLinearInterface, request_.config.linear);
    if (plugins.empty()) return;
    for (const std::string& format : formats) {
      LinearChoice choice{format, {}};
      for (const PluginRef& plugin : plugins) {
        if (provides_word(*plugin.descriptor, "weight.format", format)) {
          choice.candidates.push_back(plugin);
        }
      }
      if (choice.candidates.empty()) faults_.push_back(no_kernel(format, plugins));
      out.push_back(std::move(choice));
    }
  }

  // An executor that does its own arithmetic has no use for a kernel that someone asked for.
  void refuse_kernels(const Executor& executor, const std::string& section,
                      const ComponentConfig& component) {
    if (component.plugin.value == "auto" && component.options.empty()) return;
    const Origin& origin =
        component.plugin.value == "auto" ? component.options[0].origin : component.plugin.origin;
    faults_.push_back(
        invalid_argument(origin.text() + ": executor \"" + std::string(executor.name()) +
                         "\" does its own arithmetic and takes no " + section + " plugin" +
                         (section == "linear" ? but_guests(executor) : "") + "; remove [" +
                         section + "], or choose executor.plugin = \"cpu\""));
  }

  // A guest in their place has no options.
  void refuse_options(const std::string& guest, const ComponentConfig& component) {
    for (const Setting& setting : component.options) {
      faults_.push_back(invalid_argument(setting.origin.text() + ": linear " + in_quotes(guest) +
                                         " has no option " + in_quotes(setting.key) +
                                         "; remove it"));
    }
  }

  void refuse(const std::string& why) { faults_.push_back(invalid_argument(why)); }

  // All faults in one error, with the code of the first.
  Status finish() {
    if (faults_.empty()) return {};
    std::vector<std::string> texts;
    for (const Status& fault : faults_) texts.emplace_back(fault.message());
    return Status::error(faults_[0].code(), join(texts, "\n"));
  }

 private:
  // Those that the configuration allows, best first; none after a fault.
  std::vector<PluginRef> candidates(std::string_view interface, const ComponentConfig& component) {
    if (component.plugin.value == "auto") {
      auto found = request_.registry->candidates(interface, host_);
      if (found.ok()) return *std::move(found);
      faults_.push_back(found.take_status());
      return {};
    }
    auto found = request_.registry->find_usable(interface, component.plugin.value, host_,
                                                component.plugin.origin);
    if (found.ok()) return {*found};
    if (interface == kLinearInterface && found.status().code() == StatusCode::not_found) {
      faults_.push_back(not_a_plugin(component.plugin, found.status()));
      return {};
    }
    faults_.push_back(found.take_status());
    return {};
  }

  Status no_kernel(const std::string& format, const std::vector<PluginRef>& plugins) const {
    std::vector<std::string> names;
    for (const PluginRef& plugin : plugins) names.emplace_back(plugin.descriptor->id);
    return unsupported(request_.config.linear.plugin.origin.text() + ": the model " +
                       (request_.config.adapters.empty() ? "" : "or an adapter ") +
                       "has weights of format \"" + format + "\", which linear " + join(names) +
                       " cannot multiply; set linear.plugin to one that can "
                       "(`tenon plugins list linear`), or convert the model");
  }

  const PipelineRequest& request_;
  const HostFacts& host_;
  std::vector<Status> faults_;
};

// What the step loop itself can do for plugins.
Participant engine_participant(const PipelineConfig& config) {
  const bool second_model = !config.draft_model_path.value.empty();
  return {.role = "engine",
          .name = "tenon",
          .origin = {},
          .provides = {{"draft.needs", FactOp::in, 0,
                        second_model ? "nothing hidden model" : "nothing hidden layers"},
                       {"draft.shape", FactOp::in, 0, "chain tree"}},
          .requirements = {}};
}

bool keeps_kv_as(const Executor& executor, std::string_view dtype) {
  return std::ranges::any_of(executor.provides(), [&](const Fact& fact) {
    return std::string_view(fact.key) == "kv.dtype" && has_word(fact, dtype);
  });
}

// A model that keeps no K and V has nothing to round. 16 bits of one kind are nearer to those of
// the other than f32 is in memory.
std::string_view preferred_kv_dtype(const Model& model, const Executor& executor) {
  if (executor.is_exact() || !attends(model.plan)) return "f32";
  const auto attending = std::ranges::find_if(
      model.layers, [](const LayerWeights& layer) { return layer.k.n_out != 0; });
  const std::string& format =
      attending == model.layers.end() ? model.head.format : attending->k.format;
  if (format == "f16" && keeps_kv_as(executor, "f16")) return "f16";
  return format == "f32" ? "f32" : "bf16";
}

void add_config_participants(const PipelineConfig& config, std::vector<Participant>& out) {
  if (config.kv_dtype.value) {
    out.push_back({.role = "config",
                   .name = "kv_cache.dtype",
                   .origin = config.kv_dtype.origin,
                   .provides = {{"kv.dtype", FactOp::in, 0, dtype_name(*config.kv_dtype.value)}},
                   .requirements = {}});
  }
  if (config.kv_block_tokens.value) {
    out.push_back(
        {.role = "config",
         .name = "kv_cache.block_tokens",
         .origin = config.kv_block_tokens.origin,
         .provides = {{"kv.block_tokens", FactOp::equals, *config.kv_block_tokens.value, {}}},
         .requirements = {}});
  }
  if (config.drafter) {
    constexpr std::string_view kWords[] = {"exact", "rejection", "typical"};
    const std::string_view word = kWords[static_cast<size_t>(config.draft_verify.value)];
    out.push_back({.role = "config",
                   .name = "drafter.verify",
                   .origin = config.draft_verify.origin,
                   .provides = {{"sampler.verify", FactOp::in, 0, word}},
                   .requirements = {}});
    out.push_back({.role = "config",
                   .name = "drafter.plugin",
                   .origin = config.drafter->plugin.origin,
                   .provides = {},
                   .requirements = {{"sched.drafts", FactOp::in, 0, "yes"}},
                   .without = "no [drafter]"});
  }
  if (config.kv_swap_bytes.value > 0) {
    out.push_back({.role = "config",
                   .name = "kv_cache.swap_memory",
                   .origin = config.kv_swap_bytes.origin,
                   .provides = {{"kv.swap", FactOp::in, 0, "yes"}},
                   .requirements = {},
                   .without = "kv_cache.swap_memory = 0"});
  }
  if (config.deterministic.value) {
    out.push_back({.role = "config",
                   .name = "executor.deterministic",
                   .origin = config.deterministic.origin,
                   .provides = {},
                   .requirements = {{"numerics.rows", FactOp::in, 0, "invariant"}},
                   .without = "executor.deterministic = false"});
  }
}

// The option by which a drafter that can propose trees is asked for one; null: there is none, or it
// is empty.
const Setting* asked_for_trees(const ChosenPlugin& drafter) {
  const auto found = std::ranges::find(drafter.settings, "tree", &Setting::key);
  if (found == drafter.settings.end()) return nullptr;
  const auto* text = std::get_if<std::string>(&found->value);
  const bool can = provides_word(*drafter.plugin.descriptor, "draft.shape", "tree");
  return can && text != nullptr && !text->empty() ? &*found : nullptr;
}

// What a tree asks of everybody: siblings are verified, attended to apart, and the path that is
// kept may lie anywhere among the slots.
void add_tree_participant(const PipelineConfig& config, const ChosenPlugin& drafter,
                          std::vector<Participant>& out) {
  const Setting* tree = asked_for_trees(drafter);
  if (tree == nullptr) return;
  const bool exact = config.draft_verify.value != DraftVerify::rejection;
  out.push_back({.role = "config",
                 .name = "drafter.options.tree",
                 .origin = tree->origin,
                 .provides = {},
                 .requirements = {{"draft.shape", FactOp::in, 0, "tree"},
                                  {"sampler.trees", FactOp::in, 0, exact ? "exact" : "rejection"},
                                  {"attn.mask.tree", FactOp::in, 0, "yes"},
                                  {"kv.trees", FactOp::in, 0, "yes"}},
                 .without = "drafter.options.tree = \"\""});
}

// A linear kernel without its formats: they hold tensor by tensor, not for the pipeline.
Participant linear_participant(const PluginRef& plugin, const Origin& origin) {
  Participant made = describe("linear", plugin, origin);
  std::erase_if(made.provides, [](const Fact& fact) { return fact.key == "weight.format"; });
  return made;
}

std::vector<Participant> gather(const PipelineRequest& request, const Model& model,
                                const Executor& executor, const ChosenPlugins& chosen) {
  const PipelineConfig& config = request.config;
  std::vector<Participant> all;
  all.push_back(engine_participant(config));
  all.push_back(model_participant("model", model, config.model_path.origin));
  all.push_back(executor_participant(executor, config.executor.origin));
  const ChosenPlugin* const plugins[] = {&chosen.scheduler,
                                         chosen.fallback_scheduler.get(),
                                         &chosen.kv_cache,
                                         chosen.attention.get(),
                                         chosen.attention_decode.get(),
                                         chosen.state.get(),
                                         &chosen.sampler,
                                         chosen.drafter.get()};
  for (const ChosenPlugin* plugin : plugins) {
    if (plugin != nullptr) all.push_back(plugin->participant());
  }
  std::set<std::string_view> kernels;
  for (const LinearChoice& choice : chosen.linear) {
    const PluginRef& best = choice.candidates.front();
    if (kernels.insert(best.descriptor->id).second) {
      all.push_back(linear_participant(best, config.linear.plugin.origin));
    }
  }
  if (!chosen.guest.empty()) {
    all.push_back(guest_participant(chosen.guest, "batch", config.linear.plugin.origin));
  }
  add_config_participants(config, all);
  if (chosen.drafter != nullptr) add_tree_participant(config, *chosen.drafter, all);
  return all;
}

constexpr std::pair<const char*, std::string_view> kSections[] = {
    {"scheduler", kSchedulerInterface}, {"kv_cache", kKvCacheInterface},
    {"attention", kAttentionInterface}, {"state", kStateInterface},
    {"sampler", kSamplerInterface},     {"drafter", kDrafterInterface}};

bool takes_all_formats(const PluginRef& plugin, const ChosenPlugins& chosen) {
  return std::ranges::all_of(chosen.linear, [&](const LinearChoice& choice) {
    return provides_word(*plugin.descriptor, "weight.format", choice.format);
  });
}

// Other plugins of the interfaces that were configured: what an error may suggest.
std::vector<Participant> other_plugins(const PipelineRequest& request, const HostFacts& host,
                                       const ChosenPlugins& chosen) {
  std::vector<Participant> all;
  for (const auto& [section, interface] : kSections) {
    Result<std::vector<PluginRef>> found = request.registry->candidates(interface, host);
    if (!found.ok()) continue;
    for (const PluginRef& plugin : *found) all.push_back(describe(section, plugin, {}));
  }
  if (!chosen.guest.empty()) all.push_back(guest_participant("auto", "invariant", {}));
  Result<std::vector<PluginRef>> kernels = request.registry->candidates(kLinearInterface, host);
  if (!kernels.ok() || chosen.linear.empty()) return all;
  for (const PluginRef& plugin : *kernels) {
    if (takes_all_formats(plugin, chosen)) all.push_back(linear_participant(plugin, {}));
  }
  return all;
}

// With "auto", the attention kernel that fits the rest best; of equals, the one of best score.
Status settle_attention(const PipelineRequest& request, const HostFacts& host, const Model& model,
                        const Executor& executor, uint32_t context_tokens, ChosenPlugins& chosen,
                        ChosenPlugin& kernel) {
  TENON_ASSIGN_OR_RETURN(const std::vector<PluginRef> found,
                         request.registry->candidates(kAttentionInterface, host));
  // What does not fit for other reasons must not decide: the kernel with the fewest conflicts.
  PluginRef best = kernel.plugin;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const PluginRef& plugin : found) {
    kernel.plugin = plugin;
    const size_t count = conflicts(gather(request, model, executor, chosen), context_tokens);
    if (count < fewest) {
      fewest = count;
      best = plugin;
    }
  }
  kernel.plugin = best;
  log(LogLevel::debug, "pipeline",
      kernel.section + ": '" + std::string(best.descriptor->id) + "' – auto: fits the rest best (" +
          std::to_string(fewest) + " conflicts)");
  TENON_ASSIGN_OR_RETURN(kernel.options, fill_options(*best.descriptor, kernel.settings));
  return {};
}

}  // namespace

Participant ChosenPlugin::participant() const {
  return describe(section, plugin, origin);
}

namespace {

// One kernel for all, or one for prompts and another for single rows.
void choose_attention(Chooser& chooser, const PipelineConfig& config, ChosenPlugins& chosen) {
  const auto choose = [&](const char* section, const ComponentConfig& component) {
    auto kernel = std::make_unique<ChosenPlugin>();
    chooser.choose(section, kAttentionInterface, component, *kernel);
    return kernel;
  };
  const auto& prefill = config.attention_prefill;
  const auto& decode = config.attention_decode;
  chosen.attention =
      prefill ? choose("attention.prefill", *prefill) : choose("attention", config.attention);
  if (decode) {
    chosen.attention_decode = choose("attention.decode", *decode);
  } else if (prefill) {
    chosen.attention_decode = choose("attention", config.attention);
  }
}

}  // namespace

namespace {

// Another scheduler with its usual options, where the one that was chosen may be lost.
void choose_fallback(Chooser& chooser, const PipelineConfig& config, ChosenPlugins& chosen) {
  const LoadedLibrary* library = chosen.scheduler.plugin.library;
  if (library == nullptr || library->foreign == nullptr) return;
  const ComponentConfig component{config.fallback_scheduler, {}};
  chosen.fallback_scheduler = std::make_unique<ChosenPlugin>();
  chooser.choose("engine.fallback.scheduler", kSchedulerInterface, component,
                 *chosen.fallback_scheduler);
  const LoadedLibrary* other = chosen.fallback_scheduler->plugin.library;
  if (other != nullptr && other->foreign != nullptr) {
    chooser.refuse(config.fallback_scheduler.origin.text() + ": engine.fallback.scheduler is " +
                   in_quotes(config.fallback_scheduler.value) +
                   ", which would be isolated itself; name one of the program's own, such as "
                   "\"continuous\"");
  }
}

}  // namespace

Result<ChosenPlugins> choose_plugins(const PipelineRequest& request, const PlacedModels& pipeline) {
  const PipelineConfig& config = request.config;
  const Model& model = *pipeline.model;
  const Model* second = pipeline.second ? pipeline.second->model.get() : nullptr;
  const Executor& executor = *pipeline.executor;
  Chooser chooser(request, pipeline.host);
  ChosenPlugins chosen;
  chooser.choose("scheduler", kSchedulerInterface, config.scheduler, chosen.scheduler);
  choose_fallback(chooser, config, chosen);
  chooser.choose("kv_cache", kKvCacheInterface, config.kv_cache, chosen.kv_cache);
  if (executor.uses_kernels()) {
    if (attends(model.plan) || (second != nullptr && attends(second->plan))) {
      choose_attention(chooser, config, chosen);
    }
    if (recurs(model.plan)) {
      chosen.state = std::make_unique<ChosenPlugin>();
      chooser.choose("state", kStateInterface, config.state, *chosen.state);
    }
    std::set<std::string> formats;
    add_weight_formats(model, formats);
    if (second != nullptr) add_weight_formats(*second, formats);
    if (pipeline.second && pipeline.second->head && pipeline.second->head->fc.n_out > 0) {
      formats.insert(pipeline.second->head->fc.format);
    }
    for (const auto& adapter : pipeline.adapters) add_adapter_formats(*adapter, formats);
    chooser.choose_linear(formats, chosen.linear);
  } else {
    chooser.refuse_kernels(executor, "attention", config.attention);
    for (const auto* own : {&config.attention_prefill, &config.attention_decode}) {
      if (*own) chooser.refuse_kernels(executor, "attention", **own);
    }
    chooser.refuse_kernels(executor, "state", config.state);
    chosen.guest = executor.guest();
    if (chosen.guest.empty()) {
      chooser.refuse_kernels(executor, "linear", config.linear);
    } else {
      chooser.refuse_options(chosen.guest, config.linear);
    }
  }
  chooser.choose("sampler", kSamplerInterface, config.sampler, chosen.sampler);
  if (config.drafter) {
    chosen.drafter = std::make_unique<ChosenPlugin>();
    chooser.choose("drafter", kDrafterInterface, *config.drafter, *chosen.drafter);
  }
  TENON_RETURN_IF_ERROR(chooser.finish());
  return chosen;
}

Result<ResolvedFacts> negotiate_pipeline(const PipelineRequest& request, const HostFacts& host,
                                         const Model& model, const Executor& executor,
                                         uint32_t context_tokens, ChosenPlugins& chosen) {
  for (ChosenPlugin* kernel : {chosen.attention.get(), chosen.attention_decode.get()}) {
    if (kernel == nullptr || !kernel->automatic) continue;
    TENON_RETURN_IF_ERROR(
        settle_attention(request, host, model, executor, context_tokens, chosen, *kernel));
  }
  NegotiationRequest negotiation;
  negotiation.participants = gather(request, model, executor, chosen);
  negotiation.context_tokens = context_tokens;
  negotiation.preferences = {{"kv.dtype", std::string(preferred_kv_dtype(model, executor)), 0},
                             {"kv.dtype", "f32", 0},
                             {"kv.dtype", "bf16", 0},
                             {"kv.block_tokens", "", 16},
                             {"draft.shape", "chain", 0}};
  negotiation.alternatives = [&] { return other_plugins(request, host, chosen); };
  return negotiate(negotiation);
}

}  // namespace tenon
