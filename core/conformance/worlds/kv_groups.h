// A KV group as traffic over a manager knows it.
#pragma once

#include <tenon/kv_cache.h>

#include <cstdint>
#include <string>

namespace tenon {

struct KvTestGroup {
  KvKind kind = KvKind::attention;
  DType dtype = DType::f32;
  uint32_t block_tokens = 4;  // 1 of recurrent groups
  uint32_t blocks = 24;
  uint32_t swap_blocks = 0;
  uint32_t window_tokens = 0;
  // Of managers that evict, in whole blocks: what stays, and how much goes at a time. 0 = all
  // stays.
  uint32_t sink_tokens = 0;
  uint32_t kept_tokens = 0;
  uint32_t stride_tokens = 0;

  bool recurrent() const { return kind == KvKind::recurrent; }
  // How many entries after the sinks the row at `position` does not see: as many strides as leave
  // it the tokens to keep.
  uint32_t evicted(uint32_t position) const {
    if (kept_tokens == 0) return 0;
    uint32_t gone = 0;
    while (sink_tokens + gone + stride_tokens + kept_tokens <= position + 1) gone += stride_tokens;
    return gone;
  }
  // Rows from `position` on that see the same before them.
  uint32_t alike(uint32_t position) const {
    if (kept_tokens == 0) return UINT32_MAX;
    uint32_t rows = 1;
    while (evicted(position + rows) == evicted(position)) ++rows;
    return rows;
  }
};

// The first thing that was found wrong; what comes after may be its consequence.
class FirstFault {
 public:
  // Returns `holds`.
  bool expect(bool holds, const std::string& found) {
    if (!holds && text_.empty()) text_ = found;
    return holds;
  }
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace tenon
