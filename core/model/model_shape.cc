#include <algorithm>
#include <cmath>

#include "core/model/model_config.h"

namespace tenon {

// One group for all layers: its window is theirs where they agree, else unlimited, because a layer
// without a window reads every block.
ModelShapeStorage::ModelShapeStorage(const ModelConfig& config, uint32_t context_tokens) {
  const std::vector<uint32_t>& windows = config.window_tokens;
  const bool same = std::ranges::adjacent_find(windows, std::not_equal_to{}) == windows.end();
  groups_.push_back({.layers = config.layers,
                     .kv_heads = config.kv_heads,
                     .k_dim = config.head_dim,
                     .v_dim = config.head_dim,
                     .window_tokens = same && !windows.empty() ? windows.front() : 0});
  layers_.resize(config.layers);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    layers_[layer] = {
        .group = 0,
        .index_in_group = layer,
        .query_heads = config.heads,
        .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
        .window_tokens = layer < windows.size() ? windows[layer] : 0};
  }
  shape_ = {.hidden = config.hidden,
            .vocabulary = config.vocabulary,
            .context_tokens = std::min(context_tokens, config.context_tokens)};
  point_to_arrays();
}

ModelShapeStorage::ModelShapeStorage(const ModelShape& target, const ModelShape& draft)
    : groups_(target.groups, target.groups + target.group_count),
      layers_(target.layer, target.layer + target.layers),
      shape_(target) {
  for (GroupId group = 0; group < draft.group_count; ++group) {
    groups_.push_back(draft.groups[group]);
    groups_.back().owner = KvOwner::draft;
  }
  for (LayerId layer = 0; layer < draft.layers; ++layer) {
    layers_.push_back(draft.layer[layer]);
    LayerShape& added = layers_.back();
    added.group += target.group_count;
    if (added.shares_kv_with >= 0) added.shares_kv_with += static_cast<int32_t>(target.layers);
  }
  point_to_arrays();
}

void ModelShapeStorage::point_to_arrays() {
  shape_.layers = static_cast<uint32_t>(layers_.size());
  shape_.group_count = static_cast<uint32_t>(groups_.size());
  shape_.groups = groups_.data();
  shape_.layer = layers_.data();
}

}  // namespace tenon
