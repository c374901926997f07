// Where a step ends because a KV manager evicts.
#pragma once

#include <tenon/kv_cache.h>

#include <cstdint>
#include <limits>

namespace tenon {

// How many rows from `position` on see what the one at `position` sees in front of the step.
inline uint32_t tokens_alike(const KvEviction* eviction, uint32_t position) {
  if (eviction == nullptr) return std::numeric_limits<uint32_t>::max();
  if (position < eviction->first) return eviction->first - position;
  return eviction->every - (position - eviction->first) % eviction->every;
}

}  // namespace tenon
