// Which plugins a configuration means, and whether they can agree.
#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "core/engine/pipeline_parts.h"

namespace tenon {
namespace {

std::vector<std::string> weight_formats(const Model& model) {
  std::set<std::string> formats{model.embedding.format, model.head.format};
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      formats.insert(weight->format);
    }
  }
  return {formats.begin(), formats.end()};
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
  for (const Fact& fact : std::span(descriptor.provides, descriptor.provide_count)) {
    if (fact.key != key) continue;
    const std::vector<std::string_view> words = split(fact.words, ' ');
    if (std::find(words.begin(), words.end(), word) != words.end()) return true;
  }
  return false;
}

class Chooser {
 public:
  Chooser(const PipelineRequest& request, const HostFacts& host) : request_(request), host_(host) {}

  Status choose(const char* section, std::string_view interface, const ComponentConfig& component,
                ChosenPlugin& out) {
    out.section = section;
    out.origin = component.plugin.origin;
    out.settings = component.options;
    if (component.plugin.value == "auto") {
      TENON_ASSIGN_OR_RETURN(const std::vector<PluginRef> found,
                             request_.registry->candidates(interface, host_));
      out.plugin = found.front();
    } else {
      TENON_ASSIGN_OR_RETURN(
          out.plugin, request_.registry->find_usable(interface, component.plugin.value, host_,
                                                     component.plugin.origin));
    }
    TENON_ASSIGN_OR_RETURN(out.options, fill_options(*out.plugin.descriptor, component.options));
    return {};
  }

  // For each format, the kernels that say they take it.
  Result<std::vector<LinearChoice>> choose_linear(const Model& model) {
    const ComponentConfig& component = request_.config.linear;
    std::vector<PluginRef> plugins;
    if (component.plugin.value == "auto") {
      TENON_ASSIGN_OR_RETURN(plugins, request_.registry->candidates(kLinearInterface, host_));
    } else {
      TENON_ASSIGN_OR_RETURN(const PluginRef plugin, request_.registry->find_usable(
                                                         kLinearInterface, component.plugin.value,
                                                         host_, component.plugin.origin));
      plugins.push_back(plugin);
    }
    std::vector<LinearChoice> choices;
    for (const std::string& format : weight_formats(model)) {
      LinearChoice choice{format, {}};
      for (const PluginRef& plugin : plugins) {
        if (provides_word(*plugin.descriptor, "weight.format", format)) {
          choice.candidates.push_back(plugin);
        }
      }
      if (choice.candidates.empty()) return no_kernel(format, plugins);
      choices.push_back(std::move(choice));
    }
    return choices;
  }

 private:
  Status no_kernel(const std::string& format, const std::vector<PluginRef>& plugins) const {
    std::vector<std::string> names;
    for (const PluginRef& plugin : plugins) names.emplace_back(plugin.descriptor->id);
    return unsupported("the model has weights of format \"" + format + "\", which linear " +
                       join(names) +
                       " cannot multiply; set linear.plugin to one that can "
                       "(`tenon plugins list linear`), or convert the model");
  }

  const PipelineRequest& request_;
  const HostFacts& host_;
};

Status refuse_kernels(const Executor& executor, const char* section, const Origin& origin) {
  return invalid_argument(origin.text() + ": executor \"" + std::string(executor.name()) +
                          "\" does its own arithmetic and takes no " + section +
                          " plugin; remove " + section + ".plugin, or set it to \"auto\"");
}

// --- facts -------------------------------------------------------------------------------------

std::string_view mask_of(const ModelConfig& config) {
  const auto& windows = config.window_tokens;
  const bool sliding =
      std::any_of(windows.begin(), windows.end(), [](uint32_t w) { return w > 0; });
  return sliding ? "sliding" : "causal";
}

// What the model asks of the kernels that run it.
Participant model_participant(const Model& model, const Origin& origin) {
  const ModelConfig& config = model.config;
  return {.role = "model",
          .name = config.architecture,
          .origin = origin,
          .provides = {{"attn.head_dim", FactOp::equals, config.head_dim, {}},
                       {"attn.group", FactOp::equals, config.heads / config.kv_heads, {}},
                       {"attn.mask", FactOp::in, 0, mask_of(config)}},
          .requirements = {}};
}

std::string_view kv_dtype_of_weights(const Model& model) {
  const std::string& format = model.layers.empty() ? model.head.format : model.layers[0].k.format;
  if (format == "f16") return "f16";
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
  all.push_back(model_participant(model, config.model_path.origin));
  Participant device{.role = "executor",
                     .name = std::string(executor.name()),
                     .origin = config.executor.origin,
                     .provides = {},
                     .requirements = {}};
  device.provides.assign(executor.provides().begin(), executor.provides().end());
  device.requirements.assign(executor.requirements().begin(), executor.requirements().end());
  all.push_back(std::move(device));
  const ChosenPlugin* const plugins[] = {&chosen.scheduler, &chosen.kv_cache,
                                         chosen.attention.get(), &chosen.sampler,
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
  add_config_participants(config, all);
  return all;
}

// Other plugins of the interfaces that were configured: what an error may suggest.
std::vector<Participant> other_plugins(const PipelineRequest& request, const HostFacts& host) {
  constexpr std::pair<const char*, std::string_view> kSections[] = {
      {"scheduler", kSchedulerInterface},
      {"kv_cache", kKvCacheInterface},
      {"attention", kAttentionInterface},
      {"sampler", kSamplerInterface}};
  std::vector<Participant> all;
  for (const auto& [section, interface] : kSections) {
    Result<std::vector<PluginRef>> found = request.registry->candidates(interface, host);
    if (!found.ok()) continue;
    for (const PluginRef& plugin : *found) all.push_back(describe(section, plugin, {}));
  }
  return all;
}

// With "auto", the first attention kernel by score that fits the rest.
Status settle_attention(const PipelineRequest& request, const HostFacts& host, const Model& model,
                        const Executor& executor, uint32_t context_tokens, ChosenPlugins& chosen) {
  if (chosen.attention == nullptr || request.config.attention.plugin.value != "auto") return {};
  TENON_ASSIGN_OR_RETURN(const std::vector<PluginRef> found,
                         request.registry->candidates(kAttentionInterface, host));
  const PluginRef preferred = chosen.attention->plugin;
  for (const PluginRef& plugin : found) {
    chosen.attention->plugin = plugin;
    if (can_agree(gather(request, model, executor, chosen), context_tokens)) {
      TENON_ASSIGN_OR_RETURN(chosen.attention->options,
                             fill_options(*plugin.descriptor, chosen.attention->settings));
      return {};
    }
  }
  chosen.attention->plugin = preferred;
  return {};
}

}  // namespace

Participant ChosenPlugin::participant() const {
  return describe(section, plugin, origin);
}

Result<ChosenPlugins> choose_plugins(const PipelineRequest& request, const HostFacts& host,
                                     const Model& model, const Executor& executor) {
  const PipelineConfig& config = request.config;
  Chooser chooser(request, host);
  ChosenPlugins chosen;
  TENON_RETURN_IF_ERROR(
      chooser.choose("scheduler", kSchedulerInterface, config.scheduler, chosen.scheduler));
  TENON_RETURN_IF_ERROR(
      chooser.choose("kv_cache", kKvCacheInterface, config.kv_cache, chosen.kv_cache));
  TENON_RETURN_IF_ERROR(
      chooser.choose("sampler", kSamplerInterface, config.sampler, chosen.sampler));
  if (config.drafter) {
    chosen.drafter = std::make_unique<ChosenPlugin>();
    TENON_RETURN_IF_ERROR(
        chooser.choose("drafter", kDrafterInterface, *config.drafter, *chosen.drafter));
  }
  if (executor.uses_kernels()) {
    chosen.attention = std::make_unique<ChosenPlugin>();
    TENON_RETURN_IF_ERROR(
        chooser.choose("attention", kAttentionInterface, config.attention, *chosen.attention));
    TENON_ASSIGN_OR_RETURN(chosen.linear, chooser.choose_linear(model));
    return chosen;
  }
  if (config.attention.plugin.value != "auto") {
    return refuse_kernels(executor, "attention", config.attention.plugin.origin);
  }
  if (config.linear.plugin.value != "auto") {
    return refuse_kernels(executor, "linear", config.linear.plugin.origin);
  }
  return chosen;
}

Result<ResolvedFacts> negotiate_pipeline(const PipelineRequest& request, const HostFacts& host,
                                         const Model& model, const Executor& executor,
                                         uint32_t context_tokens, ChosenPlugins& chosen) {
  TENON_RETURN_IF_ERROR(settle_attention(request, host, model, executor, context_tokens, chosen));
  NegotiationRequest negotiation;
  negotiation.participants = gather(request, model, executor, chosen);
  negotiation.context_tokens = context_tokens;
  negotiation.preferences = {{"kv.dtype", std::string(kv_dtype_of_weights(model)), 0},
                             {"kv.dtype", "f32", 0},
                             {"kv.dtype", "bf16", 0},
                             {"kv.block_tokens", "", 16}};
  negotiation.alternatives = [&] { return other_plugins(request, host); };
  return negotiate(negotiation);
}

}  // namespace tenon
