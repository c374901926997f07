// The bytes of a KV cache in host memory, the swap pool beside it, which has the same shape, and
// the moves that a KV manager asks for. Attention groups have a K and a V plane a storage, latent
// ones a K plane alone, in the order [block][head][token][element]; recurrent groups have slots.
//
// Threads: one thread calls.
#pragma once

#include <tenon/attention.h>
#include <tenon/kv_cache.h>
#include <tenon/model.h>
#include <tenon/state.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/exec/host_memory.h"
#include "core/exec/kv_bytes.h"
#include "core/model/decoder.h"

namespace tenon {

class HostKv final : public KvBytes {
 public:
  // Layers that attend and are not in `range` have no memory: another rank's executor runs them.
  // Errors: invalid_argument (shape and geometry do not fit), out_of_memory.
  Status allocate(const ModelShape& shape, const KvGeometry& geometry, LayerRange range = {});

  // [group_count], empty for groups of the other kind. Valid while this object lives and is not
  // allocated again.
  std::span<const KvGroupStorage> storage() const { return storage_; }
  std::span<const StateStorage> states() const { return states_; }
  uint64_t bytes() const { return bytes_; }  // of the cache, without the pool
  // False once somebody wrote behind a plane.
  bool intact() const;
  // What first steps reach: the beginning of every plane, and all slots of states.
  std::vector<MemoryPart> parts() const;

  // Copies tokens in all layers of the move's group, in order; of a recurrent group whole slots. A
  // move may overlap itself. Nothing is moved when any of the moves is out of range or leaves host
  // memory.
  Status apply(std::span<const KvMove> moves);

  uint64_t block_bytes(GroupId group) const override;
  void read_block(GroupId group, BlockId block, uint64_t first,
                  std::span<std::byte> out) const override;
  void write_block(GroupId group, BlockId block, std::span<const std::byte> bytes) override;
  void watch(KvWatch* watch) override { watch_ = watch; }
  // The step at hand has stored what the layer keeps, as those before it have: whoever watches is
  // told. [any one thread]
  void layer_done(LayerId layer) const;

 private:
  // A plane of its own, or the slots of a recurrent group as a plane of one head.
  struct OwnPlane {
    GroupId group = 0;
    uint32_t heads = 0;
    KvPlane plane;
    uint64_t bytes = 0;
    std::byte* swap_base = nullptr;  // of the pool's plane, which has the same strides

    std::byte* at(const KvPlace& place) const;
  };
  Status check(const KvMove& move) const;
  Status add_group(const ModelShape& shape, GroupId group, LayerRange range);
  void find_ready_bytes(const ModelShape& shape);
  Result<KvPlane> make_plane(GroupId group, uint32_t heads, KvPlane strides);

  std::vector<KvGroupGeometry> groups_;
  std::vector<std::vector<KvLayerStorage>> layers_;  // [group_count][KvGroup::layers]
  std::vector<KvGroupStorage> storage_;
  std::vector<StateStorage> states_;
  std::vector<OwnPlane> planes_;
  std::vector<HostMemory> memory_;
  uint64_t bytes_ = 0;
  std::vector<std::vector<uint64_t>> ready_bytes_;  // [layers][groups] after each layer
  KvWatch* watch_ = nullptr;
};

}  // namespace tenon
