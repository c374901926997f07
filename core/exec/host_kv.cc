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

Status check_group(const ModelShape& shape, const KvGeometry& geometry, GroupId group) {
  const std::string name = "KV group " + std::to_string(group);
  if (shape.groups[group].kind != KvKind::attention) {
    return unsupported(name + " is not an attention group; this executor stores K and V only");
  }
  if (geometry.groups[group].block_tokens == 0) {
    return invalid_argument(name + " has blocks of 0 tokens; expected at least 1");
  }
  const uint32_t most = std::max(geometry.groups[group].blocks, geometry.groups[group].swap_blocks);
  if (most > INT32_MAX) {
    return invalid_argument(name + " has " + std::to_string(most) +
                            " blocks; block ids end at 2147483647");
  }
  return {};
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
  const uint64_t layer_bytes =
      g.kv_heads * (kv_row_bytes(dtype, g.k_dim) + kv_row_bytes(dtype, g.v_dim));
  uint64_t layers = 0;
  for (LayerId layer = 0; layer < shape.layers; ++layer) {
    if (shape.layer[layer].group == group && shape.layer[layer].shares_kv_with < 0) ++layers;
  }
  return layers * layer_bytes;
}

Status HostKv::allocate(const ModelShape& shape, const KvGeometry& geometry) {
  if (shape.group_count != geometry.group_count) {
    return invalid_argument("the model has " + std::to_string(shape.group_count) +
                            " KV groups, the KV geometry " + std::to_string(geometry.group_count) +
                            "; expected as many");
  }
  *this = HostKv();
  storage_.dtype = geometry.dtype;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    TENON_RETURN_IF_ERROR(check_group(shape, geometry, group));
    groups_.push_back(geometry.groups[group]);
    block_tokens_.push_back(geometry.groups[group].block_tokens);
  }
  for (LayerId layer = 0; layer < shape.layers; ++layer) {
    TENON_RETURN_IF_ERROR(add_layer(shape, layer));
  }
  storage_.block_tokens = block_tokens_;
  storage_.layers = layers_;
  return {};
}

Status HostKv::add_layer(const ModelShape& shape, LayerId layer) {
  const LayerShape& l = shape.layer[layer];
  if (l.group >= shape.group_count || l.shares_kv_with >= static_cast<int64_t>(layer)) {
    return invalid_argument("layer " + std::to_string(layer) +
                            " names a KV group or a sharing layer that does not come before it");
  }
  if (l.shares_kv_with >= 0) {
    layers_.push_back(layers_[static_cast<size_t>(l.shares_kv_with)]);
    return {};
  }
  const KvGroup& g = shape.groups[l.group];
  KvLayerStorage planes;
  TENON_ASSIGN_OR_RETURN(planes.k, make_plane(l.group, g.kv_heads, g.k_dim));
  TENON_ASSIGN_OR_RETURN(planes.v, make_plane(l.group, g.kv_heads, g.v_dim));
  layers_.push_back(planes);
  return {};
}

Result<KvPlane> HostKv::make_plane(GroupId group, uint32_t heads, uint32_t dim) {
  KvPlane plane = kv_plane(storage_.dtype, heads, dim, groups_[group].block_tokens);
  const uint64_t bytes = saturating_mul(plane.block_bytes, groups_[group].blocks);
  TENON_ASSIGN_OR_RETURN(HostMemory memory, HostMemory::allocate(bytes, HostMemory::Backing::eager,
                                                                 "a layer of the KV cache"));
  const uint64_t pool_bytes = saturating_mul(plane.block_bytes, groups_[group].swap_blocks);
  TENON_ASSIGN_OR_RETURN(
      HostMemory pool,
      HostMemory::allocate(pool_bytes, HostMemory::Backing::lazy, "a layer of the KV swap pool"));
  plane.base = memory.data();
  bytes_ += bytes;
  planes_.push_back({group, heads, plane, pool.data()});
  memory_.push_back(std::move(memory));
  memory_.push_back(std::move(pool));
  return plane;
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

}  // namespace tenon
