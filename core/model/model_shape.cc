#include <algorithm>
#include <cmath>

#include "core/model/model_config.h"

namespace tenon {

namespace {

bool keep_the_same(const KvGroup& a, const KvGroup& b) {
  return a.kind == b.kind && a.kv_heads == b.kv_heads && a.k_dim == b.k_dim && a.v_dim == b.v_dim &&
         a.window_tokens == b.window_tokens;
}

}  // namespace

// Groups come in the order of their first layers.
ModelShapeStorage::ModelShapeStorage(const ModelConfig& config, uint32_t context_tokens) {
  layers_.resize(config.layers);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    const std::vector<uint32_t>& windows = config.window_tokens;
    const KvGroup kept{.kv_heads = config.kv_heads,
                       .k_dim = config.head_dim,
                       .v_dim = config.head_dim,
                       .window_tokens = layer < windows.size() ? windows[layer] : 0};
    const auto found = std::ranges::find_if(
        groups_, [&](const KvGroup& group) { return keep_the_same(group, kept); });
    const auto group = static_cast<GroupId>(found - groups_.begin());
    if (found == groups_.end()) groups_.push_back(kept);
    layers_[layer] = {
        .group = group,
        .index_in_group = groups_[group].layers++,
        .query_heads = config.heads,
        .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))};
  }
  shape_ = {.hidden = config.hidden,
            .vocabulary = config.vocabulary,
            .context_tokens = std::min(context_tokens, config.context_tokens)};
  const auto whole = std::ranges::find(groups_, 0u, &KvGroup::window_tokens);
  if (whole != groups_.end()) shape_.ledger_group = static_cast<GroupId>(whole - groups_.begin());
  point_to_arrays();
}

ModelShapeStorage::ModelShapeStorage(const ModelShape& target, const ModelShape& draft)
    : groups_(target.groups, target.groups + target.group_count),
      layers_(target.layers, target.layers + target.layer_count),
      shape_(target) {
  for (GroupId group = 0; group < draft.group_count; ++group) {
    groups_.push_back(draft.groups[group]);
    groups_.back().owner = KvOwner::draft;
  }
  for (LayerId layer = 0; layer < draft.layer_count; ++layer) {
    layers_.push_back(draft.layers[layer]);
    LayerShape& added = layers_.back();
    for (GroupId* group : {&added.group, &added.state_group}) {
      if (*group != kNoGroup) *group += target.group_count;
    }
    if (added.shares_kv_with >= 0) added.shares_kv_with += static_cast<int32_t>(target.layer_count);
  }
  point_to_arrays();
}

void ModelShapeStorage::point_to_arrays() {
  shape_.layer_count = static_cast<uint32_t>(layers_.size());
  shape_.group_count = static_cast<uint32_t>(groups_.size());
  shape_.groups = groups_.data();
  shape_.layers = layers_.data();
}

}  // namespace tenon
