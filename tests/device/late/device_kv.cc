#include "tests/device/late/device_kv.h"

#include <cstring>
#include <string>

#include "core/base/result.h"

namespace tenon::test {

Status DeviceKv::allocate(const ModelShape& shape, const KvGeometry& geometry, LateDevice& device) {
  device_ = &device;
  groups_.assign(geometry.groups, geometry.groups + geometry.group_count);
  layers_.resize(shape.group_count);
  storage_.resize(shape.group_count);
  states_.resize(shape.group_count);
  for (GroupId id = 0; id < shape.group_count; ++id) {
    const KvGroup& group = shape.groups[id];
    const KvGroupGeometry& sizes = groups_[id];
    if (group.kind == KvKind::recurrent) {
      const uint64_t bytes = sizes.bytes_per_token;
      KvPlane slots{nullptr, bytes, bytes, bytes};
      TENON_RETURN_IF_ERROR(add_plane(id, 1, slots));
      states_[id] = {slots.base, bytes};
      continue;
    }
    for (uint32_t i = 0; i < group.layers; ++i) {
      KvLayerStorage layer;
      layer.k = kv_plane(sizes.dtype, group.kv_heads, group.k_dim, sizes.block_tokens);
      TENON_RETURN_IF_ERROR(add_plane(id, group.kv_heads, layer.k));
      layer.v = layer.k;
      if (!group.v_inside_k()) {
        layer.v = kv_plane(sizes.dtype, group.kv_heads, group.v_dim, sizes.block_tokens);
        TENON_RETURN_IF_ERROR(add_plane(id, group.kv_heads, layer.v));
      }
      layers_[id].push_back(layer);
    }
    storage_[id] = {sizes.dtype, sizes.block_tokens, layers_[id]};
  }
  return {};
}

Status DeviceKv::add_plane(GroupId group, uint32_t heads, KvPlane& strides) {
  const uint64_t bytes = strides.block_bytes * groups_[group].blocks;
  const uint64_t swap_bytes = strides.block_bytes * groups_[group].swap_blocks;
  strides.base = device_->memory.device.allocate(bytes);
  std::byte* swap = device_->memory.pinned.allocate(swap_bytes);
  if (strides.base == nullptr || swap == nullptr) {
    return out_of_memory("the device has no room for KV group " + std::to_string(group));
  }
  bytes_ += bytes;
  planes_.push_back({group, heads, strides, swap});
  return {};
}

std::byte* DeviceKv::Plane::at(const KvPlace& place) const {
  std::byte* base = place.tier == KvTier::swap ? swap_base : strides.base;
  return base + static_cast<uint64_t>(place.block) * strides.block_bytes +
         place.token * strides.token_bytes;
}

Status DeviceKv::check(const KvMove& move) const {
  if (move.group >= groups_.size()) return internal("a move names no KV group");
  const KvGroupGeometry& group = groups_[move.group];
  for (const KvPlace* place : {&move.from, &move.to}) {
    const uint32_t blocks = place->tier == KvTier::swap ? group.swap_blocks : group.blocks;
    if (place->block < 0 || static_cast<uint32_t>(place->block) >= blocks ||
        place->token + move.tokens > group.block_tokens) {
      return internal("a move names a place that KV group " + std::to_string(move.group) +
                      " does not have");
    }
  }
  return {};
}

void DeviceKv::carry_out(const KvMove& move) const {
  for (const Plane& plane : planes_) {
    if (plane.group != move.group) continue;
    for (uint32_t head = 0; head < plane.heads; ++head) {
      const uint64_t offset = head * plane.strides.head_bytes;
      std::memmove(plane.at(move.to) + offset, plane.at(move.from) + offset,
                   move.tokens * plane.strides.token_bytes);
    }
  }
}

Status DeviceKv::apply(std::span<const KvMove> moves) {
  for (const KvMove& move : moves) TENON_RETURN_IF_ERROR(check(move));
  for (const KvMove& move : moves) {
    device_->queue.push("a move", [this, move] {
      carry_out(move);
      return Status();
    });
  }
  return {};
}

}  // namespace tenon::test
