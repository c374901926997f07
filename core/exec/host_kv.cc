#include "core/exec/host_kv.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/exec/executor.h"

namespace tenon {
namespace {

std::string place_text(const KvPlace& place, uint32_t tokens) {
  const std::string pool = place.tier == KvTier::swap ? "swap " : "";
  return pool + "block " + std::to_string(place.block) + ", tokens " + std::to_string(place.token) +
         " to " + std::to_string(uint64_t{place.token} + tokens);
}

Status check_group(const ModelShape& shape, const KvGeometry& geometry, GroupId id) {
  const std::string name = "KV group " + std::to_string(id);
  const KvGroup& group = shape.groups[id];
  const KvGroupGeometry& sizes = geometry.groups[id];
  if (sizes.block_tokens == 0) {
    return invalid_argument(name + " has blocks of 0 tokens; expected at least 1");
  }
  const uint32_t most = std::max(sizes.blocks, sizes.swap_blocks);
  if (most > INT32_MAX) {
    return invalid_argument(name + " has " + std::to_string(most) +
                            " blocks; block ids end at 2147483647");
  }
  if (group.kind != KvKind::recurrent) return {};
  if (sizes.block_tokens != 1 || sizes.bytes_per_token < group.state_bytes) {
    return invalid_argument(name + " keeps states of " + std::to_string(group.state_bytes) +
                            " bytes; its slots have " + std::to_string(sizes.bytes_per_token) +
                            " bytes and blocks " + std::to_string(sizes.block_tokens) +
                            " tokens; expected at least as many, and 1");
  }
  return {};
}

// Layers that attend must name a storage that their group has, those that share one that of an
// earlier layer.
Status check_layer(const ModelShape& shape, LayerId id) {
  const LayerShape& layer = shape.layers[id];
  if (layer.group == kNoGroup) return {};
  const std::string name = "layer " + std::to_string(id);
  if (layer.group >= shape.group_count || layer.shares_kv_with >= static_cast<int64_t>(id)) {
    return invalid_argument(name +
                            " names a KV group or a sharing layer that does not come before it");
  }
  const uint32_t storages = shape.groups[layer.group].layers;
  if (layer.index_in_group >= storages) {
    return invalid_argument(name + " has storage " + std::to_string(layer.index_in_group) +
                            " of KV group " + std::to_string(layer.group) + ", which has " +
                            std::to_string(storages));
  }
  if (layer.shares_kv_with < 0) return {};
  const LayerShape& owner = shape.layers[layer.shares_kv_with];
  if (owner.group != layer.group || owner.index_in_group != layer.index_in_group) {
    return invalid_argument(name + " shares the K/V of layer " +
                            std::to_string(layer.shares_kv_with) +
                            ", but names another storage than that one does");
  }
  return {};
}

// The K and V planes of a group's storage; of a latent group one plane is both.
struct Planes {
  KvPlane k;
  KvPlane v;
};
Planes planes_of(const KvGroup& group, DType dtype, uint32_t block_tokens) {
  const KvPlane k = kv_plane(dtype, group.kv_heads, group.k_dim, block_tokens);
  if (group.v_inside_k()) return {k, k};
  return {k, kv_plane(dtype, group.kv_heads, group.v_dim, block_tokens)};
}

// Whether one of the layers keeps its K and V in that storage of the group. What no layer names
// is used besides K and V (keys of an index), by whichever rank runs such layers.
bool is_used(const ModelShape& shape, GroupId group, uint32_t storage, LayerRange range) {
  bool is_named = false;
  for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
    const LayerShape& own = shape.layers[layer];
    if (own.group != group || own.index_in_group != storage) continue;
    if (range.contains(layer)) return true;
    is_named = true;
  }
  return !is_named;
}

}  // namespace

KvPlane kv_plane(DType dtype, uint32_t kv_heads, uint32_t dim, uint32_t block_tokens) {
  KvPlane plane;
  plane.token_bytes = kv_row_bytes(dtype, dim);
  plane.head_bytes = saturating_mul(plane.token_bytes, block_tokens);
  plane.block_bytes = saturating_mul(plane.head_bytes, kv_heads);
  return plane;
}

uint64_t kv_bytes_per_token(const ModelShape& shape, GroupId group, DType dtype) {
  const KvGroup& g = shape.groups[group];
  if (g.kind == KvKind::recurrent) return g.state_bytes;
  const Planes planes = planes_of(g, dtype, 1);
  const uint64_t v_bytes = g.v_inside_k() ? 0 : planes.v.block_bytes;
  return g.layers * (planes.k.block_bytes + v_bytes);
}

Status HostKv::allocate(const ModelShape& shape, const KvGeometry& geometry, LayerRange range) {
  if (shape.group_count != geometry.group_count) {
    return invalid_argument("the model has " + std::to_string(shape.group_count) +
                            " KV groups, the KV geometry " + std::to_string(geometry.group_count) +
                            "; expected as many");
  }
  *this = HostKv();
  groups_.assign(geometry.groups, geometry.groups + geometry.group_count);
  layers_.resize(shape.group_count);
  storage_.resize(shape.group_count);
  states_.resize(shape.group_count);
  for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
    TENON_RETURN_IF_ERROR(check_layer(shape, layer));
  }
  for (GroupId group = 0; group < shape.group_count; ++group) {
    TENON_RETURN_IF_ERROR(check_group(shape, geometry, group));
    TENON_RETURN_IF_ERROR(add_group(shape, group, range));
  }
  find_ready_bytes(shape);
  return {};
}

// A block's storages lie in their order, so as many of its bytes are final as leading storages are
// written. The first layer that names a storage writes it; what no layer names (keys of an index)
// is not known to be final before the step is.
void HostKv::find_ready_bytes(const ModelShape& shape) {
  std::vector<std::vector<bool>> written(shape.group_count);
  for (GroupId group = 0; group < shape.group_count; ++group) {
    written[group].resize(layers_[group].size());
  }
  const auto leading_bytes = [&](GroupId group) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < written[group].size() && written[group][i]; ++i) {
      const KvLayerStorage& storage = layers_[group][i];
      if (storage.k.base == nullptr) continue;  // another rank's
      bytes += storage.k.block_bytes;
      if (!shape.groups[group].v_inside_k()) bytes += storage.v.block_bytes;
    }
    return bytes;
  };
  for (LayerId layer = 0; layer < shape.layer_count; ++layer) {
    const LayerShape& own = shape.layers[layer];
    const bool attends =
        own.group < shape.group_count && own.index_in_group < written[own.group].size();
    if (attends) written[own.group][own.index_in_group] = true;
    std::vector<uint64_t>& ready = ready_bytes_.emplace_back();
    for (GroupId group = 0; group < shape.group_count; ++group) {
      ready.push_back(leading_bytes(group));
    }
  }
}

void HostKv::layer_done(LayerId layer) const {
  if (watch_ == nullptr || layer >= ready_bytes_.size()) return;
  const std::vector<uint64_t>& ready = ready_bytes_[layer];
  if (layer > 0 && ready == ready_bytes_[layer - 1]) return;
  watch_->on_ready(ready);
}

Status HostKv::add_group(const ModelShape& shape, GroupId id, LayerRange range) {
  const KvGroup& group = shape.groups[id];
  const KvGroupGeometry& sizes = groups_[id];
  if (group.kind == KvKind::recurrent) {
    const uint64_t bytes = sizes.bytes_per_token;
    TENON_ASSIGN_OR_RETURN(const KvPlane slots, make_plane(id, 1, {nullptr, bytes, bytes, bytes}));
    states_[id] = {slots.base, bytes};
    return {};
  }
  const Planes strides = planes_of(group, sizes.dtype, sizes.block_tokens);
  for (uint32_t i = 0; i < group.layers; ++i) {
    KvLayerStorage storage{strides.k, strides.v};
    if (!is_used(shape, id, i, range)) {
      layers_[id].push_back(storage);
      continue;
    }
    TENON_ASSIGN_OR_RETURN(storage.k, make_plane(id, group.kv_heads, strides.k));
    storage.v = storage.k;
    if (!group.v_inside_k()) {
      TENON_ASSIGN_OR_RETURN(storage.v, make_plane(id, group.kv_heads, strides.v));
    }
    layers_[id].push_back(storage);
  }
  storage_[id] = {sizes.dtype, sizes.block_tokens, layers_[id]};
  return {};
}

Result<KvPlane> HostKv::make_plane(GroupId group, uint32_t heads, KvPlane strides) {
  const uint64_t bytes = saturating_mul(strides.block_bytes, groups_[group].blocks);
  TENON_ASSIGN_OR_RETURN(HostMemory memory, HostMemory::allocate(bytes, HostMemory::Backing::eager,
                                                                 "a layer of the KV cache"));
  const uint64_t pool_bytes = saturating_mul(strides.block_bytes, groups_[group].swap_blocks);
  TENON_ASSIGN_OR_RETURN(
      HostMemory pool,
      HostMemory::allocate(pool_bytes, HostMemory::Backing::lazy, "a layer of the KV swap pool"));
  strides.base = memory.data();
  bytes_ += bytes;
  planes_.push_back({group, heads, strides, bytes, pool.data()});
  memory_.push_back(std::move(memory));
  memory_.push_back(std::move(pool));
  return strides;
}

std::vector<MemoryPart> HostKv::parts() const {
  std::vector<MemoryPart> parts;
  for (const OwnPlane& own : planes_) parts.push_back({own.plane.base, own.bytes});
  return parts;
}

bool HostKv::intact() const {
  return std::ranges::all_of(memory_, [](const HostMemory& memory) { return memory.intact(); });
}

Status HostKv::check(const KvMove& move) const {
  if (move.group >= groups_.size()) {
    return internal("a KV move names group " + std::to_string(move.group) + " of " +
                    std::to_string(groups_.size()));
  }
  const KvGroupGeometry& group = groups_[move.group];
  for (const KvPlace* place : {&move.from, &move.to}) {
    if (place->space != Space{}) {
      return unsupported("a KV move leaves host memory; this executor has one space, host 0");
    }
    const uint32_t blocks = place->tier == KvTier::swap ? group.swap_blocks : group.blocks;
    const bool block_ok = place->block >= 0 && static_cast<uint32_t>(place->block) < blocks;
    if (!block_ok || uint64_t{place->token} + move.tokens > group.block_tokens) {
      return internal("a KV move names " + place_text(*place, move.tokens) + "; there are " +
                      std::to_string(blocks) + " blocks of " + std::to_string(group.block_tokens) +
                      " tokens");
    }
  }
  return {};
}

std::byte* HostKv::OwnPlane::at(const KvPlace& place) const {
  std::byte* base = place.tier == KvTier::swap ? swap_base : plane.base;
  return base + static_cast<uint64_t>(place.block) * plane.block_bytes +
         place.token * plane.token_bytes;
}

Status HostKv::apply(std::span<const KvMove> moves) {
  for (const KvMove& move : moves) TENON_RETURN_IF_ERROR(check(move));
  for (const KvMove& move : moves) {
    for (const OwnPlane& own : planes_) {
      if (own.group != move.group) continue;
      for (uint32_t head = 0; head < own.heads; ++head) {
        const uint64_t offset = head * own.plane.head_bytes;
        std::memmove(own.at(move.to) + offset, own.at(move.from) + offset,
                     move.tokens * own.plane.token_bytes);
      }
    }
  }
  return {};
}

uint64_t HostKv::block_bytes(GroupId group) const {
  uint64_t bytes = 0;
  for (const OwnPlane& own : planes_) bytes += own.group == group ? own.plane.block_bytes : 0;
  return bytes;
}

void HostKv::read_block(GroupId group, BlockId block, uint64_t first,
                        std::span<std::byte> out) const {
  for (const OwnPlane& own : planes_) {
    if (own.group != group) continue;
    const uint64_t bytes = own.plane.block_bytes;
    if (first >= bytes) {
      first -= bytes;
      continue;
    }
    const uint64_t count = std::min<uint64_t>(bytes - first, out.size());
    std::memcpy(out.data(), own.at({{}, block, 0}) + first, count);
    out = out.subspan(count);
    first = 0;
  }
}

void HostKv::write_block(GroupId group, BlockId block, std::span<const std::byte> bytes) {
  for (const OwnPlane& own : planes_) {
    if (own.group != group) continue;
    std::memcpy(own.at({{}, block, 0}), bytes.data(), own.plane.block_bytes);
    bytes = bytes.subspan(own.plane.block_bytes);
  }
}

}  // namespace tenon
