#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/contract/contract.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

// How often experts repeat a row at most, in both models.
uint32_t most_experts_chosen(const BoundPlugins& pipeline) {
  uint32_t most = 1;
  const auto look_at = [&most](const Model* model) {
    for (const LayerPlan& layer :
         model != nullptr ? model->plan.layers : std::vector<LayerPlan>()) {
      if (layer.experts) most = std::max(most, layer.experts.chosen);
    }
  };
  look_at(pipeline.model.get());
  look_at(pipeline.second ? pipeline.second->model.get() : nullptr);
  return most;
}

// Plugin, options, and what its packed form may follow from.
std::string packing_of(const BoundPlugins& pipeline, const PluginRef& plugin) {
  std::string text = plugin.library->path + "\n" + std::string(plugin.descriptor->id) + "\n" +
                     std::to_string(pipeline.host.cpu.bits) +
                     (pipeline.host.slow_bf16_dot ? " slow_bf16_dot" : "") + "\n" +
                     std::to_string(pipeline.executor->workers());
  for (const FilledOptions::Item& item : pipeline.components.back().options) {
    text += "\n" + item.key + "=" + item.toml;
  }
  return text;
}

ChosenLinear bound_linear(const BoundPlugins& pipeline, size_t index) {
  ChosenLinear chosen(pipeline.checked_linear[index].get(), pipeline.linear_finish[index]);
  chosen.packs_as = pipeline.linear_packs_as[index];
  return chosen;
}

// The instance of a kernel, made when the first weight asks for it, for both models' steps.
Result<ChosenLinear> linear_instance(BoundPlugins& pipeline, const PluginRef& plugin) {
  for (size_t i = 0; i < pipeline.linear.size(); ++i) {
    if (&pipeline.linear[i].object().descriptor() == plugin.descriptor) {
      return bound_linear(pipeline, i);
    }
  }
  ChosenPlugin chosen;
  chosen.section = "linear";
  chosen.plugin = plugin;
  TENON_ASSIGN_OR_RETURN(chosen.options,
                         fill_options(*plugin.descriptor, pipeline.config.linear.options));
  PluginInstance<LinearKernel> instance;
  TENON_RETURN_IF_ERROR(create_plugin(pipeline, chosen, instance));
  LinearLimits limits;
  limits.max_rows = pipeline.limits.max_batch_tokens * most_experts_chosen(pipeline);
  limits.workers = pipeline.executor->workers();
  auto checked = std::make_unique<CheckedLinear>(*instance, std::string(plugin.descriptor->id),
                                                 call_checks(pipeline.config));
  TENON_RETURN_IF_ERROR(checked->bind(limits));
  const RunningCall call(
      name_call("extension", "linear '" + std::string(plugin.descriptor->id) + "'"));
  pipeline.linear_finish.push_back(instance.extension<GateFinish>(kGateFinish));
  pipeline.linear.push_back(std::move(instance));
  pipeline.checked_linear.push_back(std::move(checked));
  pipeline.linear_packs_as.push_back(packing_of(pipeline, plugin));
  return bound_linear(pipeline, pipeline.linear.size() - 1);
}

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Those that the configuration allows, best first. What was agreed on for rows holds for them, too.
std::vector<PluginRef> later_candidates(const BoundPlugins& pipeline, PluginRegistry& registry,
                                        std::string_view format) {
  const Configured<std::string>& asked = pipeline.config.linear.plugin;
  std::vector<PluginRef> all;
  if (asked.value == "auto") {
    auto found = registry.candidates(kLinearInterface, pipeline.host);
    if (found.ok()) all = *std::move(found);
  } else {
    const auto found =
        registry.find_usable(kLinearInterface, asked.value, pipeline.host, asked.origin);
    if (found.ok()) all.push_back(*found);
  }
  const ResolvedFact* rows = pipeline.facts.find("numerics.rows");
  const bool is_invariant = rows != nullptr && rows->word == "invariant";
  std::erase_if(all, [&](const PluginRef& plugin) {
    const auto of_rows = words_provided(*plugin.descriptor, "numerics.rows");
    if (is_invariant && !of_rows.empty() && !has_word(of_rows, "invariant")) return true;
    return !has_word(words_provided(*plugin.descriptor, "weight.format"), format);
  });
  return all;
}

}  // namespace

Status create_linear(BoundPlugins& pipeline, const ChosenPlugins& chosen) {
  for (const LinearChoice& choice : chosen.linear) {
    Result<ChosenLinear> best = linear_instance(pipeline, choice.candidates.front());
    if (!best.ok()) return best.take_status();
  }
  return {};
}

LinearResolver make_linear_resolver(BoundPlugins& pipeline, const ChosenPlugins& chosen,
                                    PluginRegistry& registry) {
  return [&pipeline, &registry,
          choices = chosen.linear](const WeightView& weight) -> Result<ChosenLinear> {
    const auto known = std::ranges::find(choices, weight.format, &LinearChoice::format);
    const std::vector<PluginRef> candidates =
        known != choices.end() ? known->candidates
                               : later_candidates(pipeline, registry, weight.format);
    std::vector<std::string> reasons;
    for (const PluginRef& plugin : candidates) {
      TENON_ASSIGN_OR_RETURN(const ChosenLinear linear, linear_instance(pipeline, plugin));
      const Status accepted = linear.kernel->accepts(weight);
      if (accepted.ok()) return linear;
      reasons.push_back(message_of(accepted));
    }
    if (reasons.empty()) reasons.emplace_back("none of those that may be used knows the format");
    return unsupported("no linear kernel takes tensor " + in_quotes(weight.name) + " (" +
                       std::string(weight.format) + "): " + join(reasons, "; "));
  };
}

}  // namespace tenon
