// What models, executors and their guests say about themselves.
#include <algorithm>
#include <limits>
#include <set>

#include "core/base/text.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {

std::vector<std::string> words_provided(const PluginDescriptor& descriptor, std::string_view key) {
  std::vector<std::string> words;
  for (const Fact& fact : std::span(descriptor.provides, descriptor.provide_count)) {
    if (fact.key != key) continue;
    for (const std::string_view word : split(fact.words, ' ')) words.emplace_back(word);
  }
  return words;
}

uint32_t most_provided(const PluginDescriptor& descriptor, std::string_view key) {
  for (const Fact& fact : std::span(descriptor.provides, descriptor.provide_count)) {
    if (fact.key != key || fact.number <= 0) continue;
    if (fact.op == FactOp::at_most || fact.op == FactOp::equals) {
      return static_cast<uint32_t>(std::min<int64_t>(fact.number, UINT32_MAX));
    }
  }
  return 0;
}

bool attends(const ModelPlan& plan) {
  return std::ranges::any_of(plan.layers, &LayerPlan::attends);
}

bool recurs(const ModelPlan& plan) {
  return std::ranges::any_of(plan.layers,
                             [](const LayerPlan& layer) { return bool{layer.recurrent}; });
}

Participant model_participant(std::string role, const Model& model, const Origin& origin) {
  Participant made{.role = std::move(role),
                   .name = model.plan.architecture,
                   .origin = origin,
                   .provides = {},
                   .requirements = {}};
  // Layers that are alike ask once.
  std::set<std::pair<uint32_t, uint32_t>> heads;
  bool windows = false, caps = false, slopes = false, sinks = false, latent = false, chosen = false;
  for (const LayerPlan& layer : model.plan.layers) {
    if (!layer.attends()) continue;
    const SelfAttentionPlan& attention = layer.attention;
    // Rows of latent attention are no heads: kernels that know it say at `bind` which they take.
    latent = latent || static_cast<bool>(layer.latent);
    chosen = chosen || static_cast<bool>(layer.index);
    heads.emplace(layer.latent ? 0 : attention.head_dim, attention.heads / attention.kv_heads);
    windows = windows || attention.window_tokens > 0;
    caps = caps || attention.soft_cap > 0;
    slopes = slopes || attention.alibi_max_bias > 0;
    sinks = sinks || attention.sinks;
  }
  for (const auto& [head_dim, group] : heads) {
    if (head_dim > 0) made.requirements.push_back({"attn.head_dim", FactOp::all_of, head_dim, {}});
    made.requirements.push_back({"attn.group", FactOp::all_of, group, {}});
  }
  if (windows) made.requirements.push_back({"attn.mask.sliding", FactOp::all_of, 0, "yes"});
  if (latent) made.requirements.push_back({"attn.latent", FactOp::all_of, 0, "yes"});
  if (chosen) made.requirements.push_back({"attn.chosen", FactOp::all_of, 0, "yes"});
  if (caps) made.requirements.push_back({"attn.soft_cap", FactOp::all_of, 0, "yes"});
  if (slopes) made.requirements.push_back({"attn.alibi", FactOp::all_of, 0, "yes"});
  if (sinks) made.requirements.push_back({"attn.sinks", FactOp::all_of, 0, "yes"});
  if (model.plan.mask_token) {
    // Rows see what stands behind them, all of a sequence is computed together, and none of it
    // stays.
    made.requirements.push_back({"attn.mask.spans", FactOp::all_of, 0, "yes"});
    made.requirements.push_back({"sched.whole_spans", FactOp::all_of, 0, "yes"});
    made.requirements.push_back({"kv.rollback", FactOp::all_of, 0, "yes"});
  }
  if (recurs(model.plan)) {
    made.requirements.push_back({"kv.recurrent", FactOp::all_of, 0, "yes"});
    // Slots of state are told apart by their token count, which siblings of a tree share.
    made.requirements.push_back({"draft.shape", FactOp::in, 0, "chain"});
  }
  return made;
}

Participant executor_participant(const Executor& executor, const Origin& origin) {
  Participant device{.role = "executor",
                     .name = std::string(executor.name()),
                     .origin = origin,
                     .provides = {},
                     .requirements = {}};
  device.provides.assign(executor.provides().begin(), executor.provides().end());
  device.requirements.assign(executor.requirements().begin(), executor.requirements().end());
  return device;
}

Participant guest_participant(std::string name, std::string_view rows, const Origin& origin) {
  return {.role = "linear",
          .name = std::move(name),
          .origin = origin,
          .provides = {{"numerics.rows", FactOp::in, 0, rows}},
          .requirements = {}};
}

}  // namespace tenon
