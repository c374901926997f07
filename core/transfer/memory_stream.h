// Connections through memory that two processes of one machine share: what one writes is copied
// into it, and out of it by the other. A unix socket carries the memory's descriptor at the
// beginning, and its end tells when the other process is gone.
//
// The other process may write anything there at any time: positions are checked, and what is read
// is copied out before anybody looks at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/transfer/stream.h"

namespace tenon {

// Of the shared memory: counters, and room for both directions.
inline constexpr size_t kMemoryStreamBytes = size_t{4096} + (256 << 10) + (4 << 20);

// Each owns `socket`, a connected unix socket. The end that connected makes the memory, the end
// that accepted waits for it in its first read.
Result<std::unique_ptr<KvStream>> offer_memory_stream(int socket, int64_t silence_ns);
std::unique_ptr<KvStream> accept_memory_stream(int socket, int64_t silence_ns);

}  // namespace tenon
