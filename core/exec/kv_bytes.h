// The bytes of whole blocks of a KV cache, for whoever keeps K/V beyond its sequence.
//
// A block's bytes are those of its planes one after the other, in the order [layer of the group]
// [K, V][head][token][element] (a latent group has no V); the slot of a recurrent group is its
// state as the kernel left it. A token's row looks as <tenon/attention.h> says.
//
// Threads: the step thread. Blocks that no step in flight writes may be read while it runs, and of
// those that it writes the bytes that KvWatch was told of.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

// Told of a step's layers while it runs, so that K/V of the first ones is on its way while the
// others are computed.
class KvWatch {
 public:
  virtual ~KvWatch() = default;

  // bytes[group]: so many leading bytes of every block that the step writes are final. They never
  // become fewer in a step, and a step that fails may have told of some. Groups of states have 0.
  // [inside Executor::launch, or whatever waits for the step]
  virtual void on_ready(std::span<const uint64_t> bytes) = 0;
};

class KvBytes {
 public:
  virtual ~KvBytes() = default;

  // Of one block of the group; 0 where there is no such group.
  virtual uint64_t block_bytes(GroupId group) const = 0;
  // The block's bytes from `first` on; `out` ends where the block does, or before. The block is one
  // of the cache's.
  virtual void read_block(GroupId group, BlockId block, uint64_t first,
                          std::span<std::byte> out) const = 0;
  // `bytes` has block_bytes(group) bytes.
  virtual void write_block(GroupId group, BlockId block, std::span<const std::byte> bytes) = 0;
  // Who is told of the steps launched from now on; null: nobody. An executor may tell of nothing.
  virtual void watch(KvWatch* /*watch*/) {}
};

}  // namespace tenon
