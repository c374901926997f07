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
  shape_ = {.layers = config.layers,
            .hidden = config.hidden,
            .vocabulary = config.vocabulary,
            .context_tokens = std::min(context_tokens, config.context_tokens),
            .group_count = static_cast<uint32_t>(groups_.size()),
            .groups = groups_.data(),
            .layer = layers_.data()};
}

}  // namespace tenon
