#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/contract/contract.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

std::string kv_cache_name(const StrategyPlugins& pipeline) {
  return "kv_cache '" + std::string(pipeline.kv_cache.object().descriptor().id) + "'";
}

// Whether the manager evicts by the weight that entries got; if so, whoever attends must tell.
Status learn_scores(StrategyPlugins& pipeline, const std::string& name) {
  pipeline.scores = pipeline.kv_cache.extension<KvScores>(kKvScores);
  if (pipeline.scores == nullptr) return {};
  if (pipeline.scores->add == nullptr) {
    return failed(name + " offers " + std::string(kKvScores) +
                  " without a function to call – expected one");
  }
  const auto refuse = [&name](const std::string& who) {
    return unsupported(name + " evicts by the weight that tokens got, which " + who +
                       " does not tell – use executor \"ref\", or executor and attention \"cpu\", "
                       "or kv_cache \"streaming\", which needs no weights");
  };
  if (!pipeline.executor->scores_entries()) {
    return refuse("executor '" + std::string(pipeline.executor->name()) + "'");
  }
  for (const auto* kernel : {&pipeline.attention, &pipeline.attention_decode}) {
    if (!*kernel || kernel->extension<AttentionScores>(kAttentionScores) != nullptr) continue;
    return refuse("attention '" + std::string(kernel->object().descriptor().id) + "'");
  }
  return {};
}

}  // namespace

std::vector<GroupId> scored_groups(const ModelShape& shape) {
  std::vector<GroupId> scored;
  for (GroupId id = 0; id < shape.group_count; ++id) {
    const KvGroup& group = shape.groups[id];
    if (group.kind != KvKind::recurrent && group.window_tokens == 0) scored.push_back(id);
  }
  return scored;
}

Status learn_eviction(StrategyPlugins& pipeline) {
  const std::string name = kv_cache_name(pipeline);
  const RunningCall call(name_call("extension", name));
  const auto* stated = pipeline.kv_cache.extension<KvEviction>(kKvEviction);
  if (stated == nullptr || stated->first >= pipeline.limits.context_tokens) return {};
  if (pipeline.model->plan.mask_token) {
    return unsupported(name + " takes out tokens from " + std::to_string(stated->first) +
                       " on, but the " + pipeline.model->plan.architecture +
                       " model generates by diffusion, whose tokens see the whole text – set "
                       "kv_cache.plugin to another manager, or limits.context_tokens to " +
                       std::to_string(stated->first) + " at most");
  }
  const auto& layers = pipeline.model->plan.layers;
  if (std::ranges::any_of(layers, [](const LayerPlan& layer) { return bool{layer.index}; })) {
    return unsupported(name + " takes out tokens from " + std::to_string(stated->first) +
                       " on, but in the " + pipeline.model->plan.architecture +
                       " model an index chooses among all of them – set kv_cache.plugin to another "
                       "manager, or limits.context_tokens to " +
                       std::to_string(stated->first) + " at most");
  }
  pipeline.eviction = *stated;
  const KvEviction& eviction = *pipeline.eviction;
  if (eviction.first == 0 || eviction.every == 0 || eviction.most_tokens == 0 ||
      eviction.numerics.empty()) {
    return failed(name + " evicts from token " + std::to_string(eviction.first) + " on, every " +
                  std::to_string(eviction.every) + " tokens, and keeps " +
                  std::to_string(eviction.most_tokens) +
                  " – expected numbers above 0, and a text that tells what rows see");
  }
  pipeline.evicts = one_line(eviction.numerics);
  pipeline.eviction->numerics = pipeline.evicts;
  return learn_scores(pipeline, name);
}

Status bind_kv_cache(PlannedMemory& pipeline) {
  const std::string name = kv_cache_name(pipeline);
  const RunningCall call(name_call("bind", name));
  const Status bound = readable(pipeline.kv_cache->bind(pipeline.kv_shape(), pipeline.geometry));
  return bound.ok() ? Status() : with_context(name, bound);
}

}  // namespace tenon
