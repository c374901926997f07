// The K/V and the recurrent states of a model in device memory, with the swap pool in pinned memory
// next to them. Moves are queued.
#pragma once

#include <tenon/attention.h>
#include <tenon/kv_cache.h>
#include <tenon/state.h>

#include <span>
#include <vector>

#include "core/exec/executor.h"
#include "tests/device/late/late_device.h"

namespace tenon::test {

class DeviceKv {
 public:
  Status allocate(const ModelShape& shape, const KvGeometry& geometry, LateDevice& device);

  std::span<const KvGroupStorage> storage() const { return storage_; }
  std::span<const StateStorage> states() const { return states_; }
  uint64_t bytes() const { return bytes_; }

  // Checks the moves and enqueues them, in order.
  Status apply(std::span<const KvMove> moves);

 private:
  // A plane, or the slots of a recurrent group as a plane of one head.
  struct Plane {
    GroupId group = 0;
    uint32_t heads = 1;
    KvPlane strides;  // base: of the cache
    std::byte* swap_base = nullptr;

    std::byte* at(const KvPlace& place) const;
  };
  Status add_plane(GroupId group, uint32_t heads, KvPlane& strides);
  Status check(const KvMove& move) const;
  void carry_out(const KvMove& move) const;

  LateDevice* device_ = nullptr;
  std::vector<KvGroupGeometry> groups_;
  std::vector<std::vector<KvLayerStorage>> layers_;  // [group_count][KvGroup::layers]
  std::vector<KvGroupStorage> storage_;
  std::vector<StateStorage> states_;
  std::vector<Plane> planes_;
  uint64_t bytes_ = 0;
};

}  // namespace tenon::test
