// The bytes of a paged KV cache in host memory: one K and one V plane a layer, in the order
// [block][head][token][element], the swap pool beside it, planes of the same kind, and the moves
// that a KV manager asks for.
//
// Threads: one thread calls.
#pragma once

#include <tenon/attention.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/exec/host_memory.h"

namespace tenon {

class HostKv {
 public:
  // Storage for every layer of `shape` that keeps K/V of its own; a layer that shares another's
  // points to that one's planes. Errors: invalid_argument (shape and geometry do not fit),
  // unsupported (groups that are not attention), out_of_memory.
  Status allocate(const ModelShape& shape, const KvGeometry& geometry);

  // Valid while this object lives and is not allocated again.
  const KvStorage& storage() const { return storage_; }
  uint64_t bytes() const { return bytes_; }  // of the cache, without the pool

  // Copies tokens in all layers of the move's group, in order. A move may overlap itself. Nothing
  // is moved when any of the moves is out of range or leaves host memory.
  Status apply(std::span<const KvMove> moves);

 private:
  struct OwnPlane {
    GroupId group = 0;
    uint32_t heads = 0;
    KvPlane plane;
    std::byte* swap_base = nullptr;  // of the pool's plane, which has the same strides

    std::byte* at(const KvPlace& place) const;
  };
  Status check(const KvMove& move) const;
  Status add_layer(const ModelShape& shape, LayerId layer);
  Result<KvPlane> make_plane(GroupId group, uint32_t heads, uint32_t dim);

  std::vector<KvGroupGeometry> groups_;
  std::vector<uint32_t> block_tokens_;
  std::vector<KvLayerStorage> layers_;
  std::vector<OwnPlane> planes_;
  std::vector<HostMemory> memory_;
  KvStorage storage_;
  uint64_t bytes_ = 0;
};

}  // namespace tenon
