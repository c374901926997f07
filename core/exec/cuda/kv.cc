#include "core/exec/cuda/kv.h"

#include <algorithm>
#include <string>

#include "core/exec/cuda/step/padded_batch.h"
#include "core/exec/executor.h"

namespace tenon::cuda {
namespace {

bool apart(const KvMove& move) {
  return move.to.tier != move.from.tier || move.to.block != move.from.block;
}

// A row of padding keeps no state.
uint64_t blocks_of(const KvGroup& group, const KvGroupGeometry& sizes, uint32_t padding_rows) {
  if (group.kind == KvKind::recurrent) return sizes.blocks;
  return uint64_t{sizes.blocks} + padding_blocks(padding_rows, sizes.block_tokens);
}

}  // namespace

uint64_t CudaKv::bytes_for(const ModelShape& shape, const KvGeometry& geometry,
                           uint32_t padding_rows) {
  uint64_t bytes = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const KvGroupGeometry& sizes = geometry.groups[group];
    const uint64_t blocks = blocks_of(shape.groups[group], sizes, padding_rows);
    const bool recurrent = shape.groups[group].kind == KvKind::recurrent;
    bytes +=
        blocks * (recurrent ? sizes.bytes_per_token
                            : kv_bytes_per_token(shape, group, sizes.dtype) * sizes.block_tokens);
  }
  return bytes;
}

Status CudaKv::allocate(const ModelShape& shape, const KvGeometry& geometry,
                        uint32_t padding_rows) {
  padding_rows_ = padding_rows;
  groups_.assign(geometry.groups, geometry.groups + geometry.group_count);
  planes_of_.resize(shape.group_count);
  for (GroupId id = 0; id < shape.group_count; ++id) {
    TENON_RETURN_IF_ERROR(add_group(id, shape.groups[id]));
  }
  TENON_ASSIGN_OR_RETURN(scratch_, memory_.array<std::byte>(scratch_bytes_, "moves of K and V"));
  return {};
}

Status CudaKv::add_group(GroupId id, const KvGroup& group) {
  const KvGroupGeometry& sizes = groups_[id];
  const uint64_t blocks = blocks_of(group, sizes, padding_rows_);
  if (group.kind == KvKind::recurrent) {
    const uint64_t bytes = sizes.bytes_per_token;
    Storage& slots = planes_of_[id].emplace_back();
    TENON_ASSIGN_OR_RETURN(slots.k, add_plane(id, 1, {nullptr, bytes, bytes, bytes}, blocks));
    return {};
  }
  const KvPlane strides = kv_plane(sizes.dtype, group.kv_heads, group.k_dim, sizes.block_tokens);
  scratch_bytes_ = std::max(scratch_bytes_, strides.head_bytes);
  for (uint32_t i = 0; i < group.layers; ++i) {
    Storage& storage = planes_of_[id].emplace_back();
    TENON_ASSIGN_OR_RETURN(storage.k, add_plane(id, group.kv_heads, strides, blocks));
    storage.v = storage.k;
    if (group.v_inside_k()) continue;
    TENON_ASSIGN_OR_RETURN(storage.v, add_plane(id, group.kv_heads, strides, blocks));
  }
  return {};
}

Result<void*> CudaKv::add_plane(GroupId group, uint32_t heads, KvPlane strides, uint64_t blocks) {
  const KvGroupGeometry& sizes = groups_[group];
  TENON_ASSIGN_OR_RETURN(void* const at,
                         memory_.bytes(strides.block_bytes * blocks, "a layer of the KV cache"));
  strides.base = static_cast<std::byte*>(at);
  PinnedMemory pool(memory_.driver());
  TENON_RETURN_IF_ERROR(
      pool.reserve(strides.block_bytes * sizes.swap_blocks, "a layer's swap pool"));
  planes_.push_back({group, heads, strides, std::move(pool)});
  return at;
}

std::byte* CudaKv::Plane::at(const KvPlace& place, uint64_t offset) {
  std::byte* const base = place.tier == KvTier::swap ? pool.data() : strides.base;
  return base + static_cast<uint64_t>(place.block) * strides.block_bytes +
         place.token * strides.token_bytes + offset;
}

Status CudaKv::check(const KvMove& move) const {
  if (move.group >= groups_.size()) {
    return internal("a KV move names group " + std::to_string(move.group) + " of " +
                    std::to_string(groups_.size()));
  }
  const KvGroupGeometry& group = groups_[move.group];
  for (const KvPlace* place : {&move.from, &move.to}) {
    const uint32_t blocks = place->tier == KvTier::swap ? group.swap_blocks : group.blocks;
    const bool block_ok = place->block >= 0 && static_cast<uint32_t>(place->block) < blocks;
    if (block_ok && uint64_t{place->token} + move.tokens <= group.block_tokens) continue;
    return internal("a KV move names block " + std::to_string(place->block) + ", tokens " +
                    std::to_string(place->token) + " to " +
                    std::to_string(uint64_t{place->token} + move.tokens) + "; there are " +
                    std::to_string(blocks) + " blocks of " + std::to_string(group.block_tokens) +
                    " tokens");
  }
  return {};
}

Status CudaKv::move_part(Plane& plane, const KvMove& move, uint64_t offset, uint64_t bytes) {
  Driver& driver = memory_.driver();
  const bool to_swap = move.to.tier == KvTier::swap;
  const bool from_swap = move.from.tier == KvTier::swap;
  if (to_swap && from_swap) {
    return unsupported(
        "a KV move inside the swap pool; expected one that begins or ends in the "
        "cache");
  }
  std::byte* const to = plane.at(move.to, offset);
  const std::byte* const from = plane.at(move.from, offset);
  if (to_swap) return driver.fetch(to, from, bytes);
  if (from_swap) return driver.send(to, from, bytes);
  if (apart(move)) return driver.copy(to, from, bytes);
  TENON_RETURN_IF_ERROR(driver.copy(scratch_, from, bytes));
  return driver.copy(to, scratch_, bytes);
}

Status CudaKv::apply(std::span<const KvMove> moves) {
  for (const KvMove& move : moves) TENON_RETURN_IF_ERROR(check(move));
  for (const KvMove& move : moves) {
    for (Plane& plane : planes_) {
      if (plane.group != move.group) continue;
      const bool whole = move.tokens == groups_[move.group].block_tokens;
      if (whole && !apart(move)) continue;  // it stays where it is
      // Heads of a whole block lie behind each other.
      if (whole) {
        TENON_RETURN_IF_ERROR(move_part(plane, move, 0, plane.strides.block_bytes));
        continue;
      }
      for (uint32_t head = 0; head < plane.heads; ++head) {
        TENON_RETURN_IF_ERROR(move_part(plane, move, head * plane.strides.head_bytes,
                                        move.tokens * plane.strides.token_bytes));
      }
    }
  }
  return {};
}

}  // namespace tenon::cuda
