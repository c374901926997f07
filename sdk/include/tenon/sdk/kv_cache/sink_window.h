// Which entries rows see where a manager evicts all but the first and the latest ones.
//
//   0 … sinks … … … … … … … p      the row at p sees the sinks, and the window that ends with
//   itself └ kept ┘ └ gone ┘└window┘
//
// What lies between is taken out `stride` tokens at a time. So a row sees up to stride - 1 tokens
// more than its window, and which ones follows from its position alone.
#pragma once

#include <cstdint>
#include <limits>

namespace tenon::sdk {

struct SinkWindow {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

  // All in whole blocks.
  uint32_t sink_tokens = 0;
  uint32_t window_tokens = 0;  // 0 = nothing is evicted
  uint32_t stride_tokens = 0;
  // What stands in the place of the sinks changes when others go: forks have copies of it, and
  // begin where their parent is.
  bool rewritten = false;

  bool evicts() const { return window_tokens > 0; }
  // Entries between sinks and window that the row at `position` does not see.
  uint32_t evicted(uint32_t position) const {
    const uint32_t seen = sink_tokens + window_tokens;
    if (!evicts() || position < seen) return 0;
    return (position - seen + 1) / stride_tokens * stride_tokens;
  }
  // The first position after `position` whose row does not see all that this one sees.
  uint32_t next(uint32_t position) const { return evicts() ? first() + evicted(position) : kNever; }
  uint32_t first() const { return most_tokens() - 1; }
  // Slots for all that any row sees.
  uint32_t most_tokens() const { return sink_tokens + window_tokens + stride_tokens; }
};

}  // namespace tenon::sdk
