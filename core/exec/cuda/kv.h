// The bytes of the KV cache on the device, the swap pool beside them in host memory, and the moves
// that a KV manager asks for. Attention groups have a K and a V plane a storage, or one plane where
// V is inside K, in the order [block][head][token][element]; recurrent groups have slots.
#pragma once

#include <tenon/attention.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/exec/cuda/device/device_memory.h"

namespace tenon::cuda {

class CudaKv {
 public:
  explicit CudaKv(Driver& driver) : memory_(driver) {}

  // Behind each attention group's blocks there are some for so many rows of padding
  // (padded_batch.h).
  static uint64_t bytes_for(const ModelShape& shape, const KvGeometry& geometry,
                            uint32_t padding_rows = 0);
  Status allocate(const ModelShape& shape, const KvGeometry& geometry, uint32_t padding_rows = 0);
  // By LayerShape::index_in_group.
  void* k(GroupId group, uint32_t index) const { return planes_of_[group][index].k; }
  void* v(GroupId group, uint32_t index) const { return planes_of_[group][index].v; }
  // Slot 0 of a recurrent group; the next one is KvGroupGeometry::bytes_per_token further.
  float* states(GroupId group) const { return static_cast<float*>(planes_of_[group][0].k); }
  uint64_t bytes() const { return memory_.held_bytes() - scratch_bytes_; }

  // On the queue, in order. Nothing is moved when any of the moves is out of range.
  Status apply(std::span<const KvMove> moves);

 private:
  struct Storage {
    void* k = nullptr;
    void* v = nullptr;
  };
  // Of a storage, or a recurrent group's slots as a plane of one head.
  struct Plane {
    GroupId group = 0;
    uint32_t heads = 0;
    KvPlane strides;  // its base is the cache's
    PinnedMemory pool;

    std::byte* at(const KvPlace& place, uint64_t offset);
  };
  Status check(const KvMove& move) const;
  // `bytes` from one place of a plane to another one.
  Status move_part(Plane& plane, const KvMove& move, uint64_t offset, uint64_t bytes);
  Status add_group(GroupId id, const KvGroup& group);
  Result<void*> add_plane(GroupId group, uint32_t heads, KvPlane strides, uint64_t blocks);

  DeviceMemory memory_;
  uint32_t padding_rows_ = 0;
  std::vector<KvGroupGeometry> groups_;
  std::vector<std::vector<Storage>> planes_of_;
  std::vector<Plane> planes_;
  std::byte* scratch_ = nullptr;  // of moves that may overlap themselves
  uint64_t scratch_bytes_ = 0;
};

}  // namespace tenon::cuda
