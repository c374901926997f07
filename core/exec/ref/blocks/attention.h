// Attention as the boundary defines it (<tenon/attention.h>), spelled out: over a cache of any
// element type, along chains and trees, with windows, soft caps, slopes and sinks.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::ref {

// Rows of a step as f32 arrays, and the cache that they are stored in.
struct Attention {
  const ModelShape& shape;
  std::span<const KvGroupStorage> storage;  // [group_count]
  const BatchView& batch;
  // [rows] the entries that an index chose for each row, rising; a row without any attends to all
  // that it sees, and so does each where there is no such list.
  std::span<const std::vector<uint32_t>> chosen = {};
  bool chunks = false;  // the layer's window is a chunk

  // Stores every row's K and V at its slot: k [rows, kv_heads, k_dim], v [rows, kv_heads, v_dim];
  // v is null where V is inside K.
  void store(LayerId layer, const float* k, const float* v) const;
  // q [rows, query_heads, k_dim] → out [rows, query_heads, v_dim]. What rows give to the entries
  // that they see is added to sums[row], as AttentionScores says, where there are any.
  void attend(LayerId layer, const float* q, float* out,
              std::span<uint64_t* const> sums = {}) const;
};

}  // namespace tenon::ref
