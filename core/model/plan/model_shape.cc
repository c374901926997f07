#include <algorithm>
#include <span>

#include "core/model/plan/model_plan.h"

namespace tenon {

namespace {

bool keep_the_same(const KvGroup& a, const KvGroup& b) {
  return a.kind == b.kind && a.kv_heads == b.kv_heads && a.k_dim == b.k_dim && a.v_dim == b.v_dim &&
         a.window_tokens == b.window_tokens;
}

// Who runs the draft is behind the target: rows are computed when drafts are wanted, and the first
// of them then sees one entry before those that the target's next row would. What a lone layer that
// attends keeps follows from a row's own inputs, so no more than that is needed. Of several layers
// the second reads what the first made of all that it saw: everything is kept.
uint32_t window_of_draft(const ModelShape& draft, const KvGroup& group) {
  if (group.window_tokens == 0) return 0;
  const std::span layers(draft.layers, draft.layer_count);
  const auto attending =
      std::ranges::count_if(layers, [](const LayerShape& each) { return each.group != kNoGroup; });
  return attending == 1 ? group.window_tokens + 1 : 0;
}

}  // namespace

// Groups come in the order of their first layers.
ModelShapeStorage::ModelShapeStorage(const ModelPlan& plan, uint32_t context_tokens)
    : sinks_(plan.sinks) {
  for (const LayerPlan& layer : plan.layers) {
    LayerShape made;
    made.group = kNoGroup;
    if (layer.attends()) add_attention(layer, made);
    if (layer.recurrent) add_recurrence(layer.recurrent, made);
    layers_.push_back(made);
  }
  shape_ = {.hidden = plan.hidden,
            .vocabulary = plan.vocabulary,
            .context_tokens = std::min(context_tokens, plan.context_tokens)};
  const auto whole = std::ranges::find_if(groups_, [](const KvGroup& group) {
    return group.kind != KvKind::recurrent && group.window_tokens == 0;
  });
  if (whole != groups_.end()) shape_.ledger_group = static_cast<GroupId>(whole - groups_.begin());
  point_to_arrays();
}

GroupId ModelShapeStorage::group_of(const KvGroup& kept) {
  const auto found = std::ranges::find_if(
      groups_, [&](const KvGroup& group) { return keep_the_same(group, kept); });
  const auto group = static_cast<GroupId>(found - groups_.begin());
  if (found == groups_.end()) groups_.push_back(kept);
  return group;
}

void ModelShapeStorage::add_attention(const LayerPlan& plan, LayerShape& layer) {
  const SelfAttentionPlan& attention = plan.attention;
  layer.group = group_of({.kind = plan.latent ? KvKind::latent : KvKind::attention,
                          .kv_heads = attention.kv_heads,
                          .k_dim = attention.k_dim(),
                          .v_dim = plan.latent ? plan.latent.kv_rank : attention.v_dim(),
                          .window_tokens = attention.window_tokens});
  const int32_t owner = attention.kv_from_layer;
  layer.shares_kv_with = owner;
  layer.index_in_group = owner < 0 ? groups_[layer.group].layers++
                                   : layers_[static_cast<size_t>(owner)].index_in_group;
  if (plan.index.heads > 0) {
    const GroupId keys = group_of({.kind = KvKind::latent, .kv_heads = 1, .k_dim = plan.index.dim});
    ++groups_[keys].layers;
  }
  layer.query_heads = attention.heads;
  layer.scale = attention.scale;
  layer.soft_cap = attention.soft_cap;
  if (attention.sinks && layers_.size() < sinks_.size()) {
    layer.sinks = sinks_[layers_.size()].data();
  }
  if (attention.alibi_max_bias == 0.0f) return;
  const std::pair key(attention.heads, attention.alibi_max_bias);
  if (!slopes_.contains(key)) slopes_[key] = alibi_slopes(key.first, key.second);
  layer.alibi_slopes = slopes_[key].data();
}

// States stand one behind the other in a slot, without gaps.
void ModelShapeStorage::add_recurrence(const RecurrentPlan& recurrent, LayerShape& layer) {
  layer.state_group = group_of({.kind = KvKind::recurrent});
  KvGroup& group = groups_[layer.state_group];
  ++group.layers;
  layer.state_kind = recurrence_name(recurrent.kind);
  layer.state_offset = group.state_bytes;
  layer.state_bytes = recurrent.state_bytes();
  group.state_bytes += layer.state_bytes;
  std::ranges::copy(recurrence_kind(recurrent.kind).dims(recurrent), layer.state_dims);
}

ModelShapeStorage::ModelShapeStorage(const ModelShape& target, const ModelShape& draft)
    : groups_(target.groups, target.groups + target.group_count),
      layers_(target.layers, target.layers + target.layer_count),
      shape_(target) {
  for (GroupId group = 0; group < draft.group_count; ++group) {
    groups_.push_back(draft.groups[group]);
    groups_.back().owner = KvOwner::draft;
    groups_.back().window_tokens = window_of_draft(draft, draft.groups[group]);
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
