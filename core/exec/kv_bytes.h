// The bytes of whole blocks of a KV cache, for whoever keeps K/V beyond its sequence.
//
// A block's bytes are those of its planes one after the other, in the order [layer of the group]
// [K, V][head][token][element] (a latent group has no V); the slot of a recurrent group is its
// state as the kernel left it. A token's row looks as <tenon/attention.h> says.
//
// Threads: the step thread. Blocks that no step in flight writes may be read while it runs.
#pragma once

#include <tenon/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

class KvBytes {
 public:
  virtual ~KvBytes() = default;

  // Of one block of the group; 0 where there is no such group.
  virtual uint64_t block_bytes(GroupId group) const = 0;
  // `out` and `bytes` have block_bytes(group) bytes. The block is one of the cache's.
  virtual void read_block(GroupId group, BlockId block, std::span<std::byte> out) const = 0;
  virtual void write_block(GroupId group, BlockId block, std::span<const std::byte> bytes) = 0;
};

}  // namespace tenon
