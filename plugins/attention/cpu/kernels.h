// What one instruction set offers to the cpu attention plugin, as plain data: the sources behind it
// are compiled with that set's flags and share no code with the rest.
#pragma once

#include <tenon/attention.h>

#include <cstddef>
#include <cstdint>

namespace tenon::attention_cpu {

// Scores of one tile of positions lie side by side; a softmax is brought up to date once a tile.
inline constexpr uint32_t kTileTokens = 64;
// Ranges are the units that different slices may work on: each has a softmax of its own, and they
// are merged in rising order. Short enough to share out a few thousand positions, long enough that
// a merge (one pass over a row of `out`) costs little compared with it.
inline constexpr uint32_t kRangeTokens = 512;
// Query rows (rows x heads of one group) that one reading of K and V serves.
inline constexpr uint32_t kMaxQueries = 96;
inline constexpr uint32_t kMaxHeadDim = 256;
// The same of the heads that few models have: Gemma 4's layers without a window.
inline constexpr uint32_t kMaxWideHeadDim = 512;
// The same of latent rows, which are wide, and which all query heads share.
inline constexpr uint32_t kMaxLatentQueries = 128;
inline constexpr uint32_t kMaxLatentDim = 1024;
// Elements of latent rows that are worked on at a time: 64 rows of them as f32 are half a first
// cache. Whole pairs of vectors of every instruction set.
inline constexpr uint32_t kLatentPart = 64;

// Sizes of a pass, by the kind of rows.
//   kQueryStride  floats from one query to the next: a constant, so that a kernel needs one pointer
//                 for all; no power of two, so that they do not share cache sets
struct HeadRows {
  static constexpr bool kLatent = false;
  static constexpr bool kPairs = false;
  static constexpr bool kBytes = false;
  static constexpr uint32_t kQueries = kMaxQueries;
  static constexpr uint32_t kQueryStride = kMaxHeadDim + 16;
};
// Heads of more than kMaxHeadDim elements.
struct WideHeadRows : HeadRows {
  static constexpr uint32_t kQueryStride = kMaxWideHeadDim + 16;
};
struct LatentRows {
  static constexpr bool kLatent = true;
  static constexpr bool kPairs = false;
  static constexpr bool kBytes = false;
  static constexpr uint32_t kQueries = kMaxLatentQueries;
  static constexpr uint32_t kQueryStride = kMaxLatentDim + 16;
};
// The same, multiplied in pairs of bf16.
template <class Rows>
struct InPairs : Rows {
  static constexpr bool kPairs = true;
};
// Heads multiplied in bytes, of a cache of i8 or i4.
struct InBytes : HeadRows {
  static constexpr bool kBytes = true;
};
constexpr uint32_t max_queries(bool latent) noexcept {
  return latent ? kMaxLatentQueries : kMaxQueries;
}

constexpr bool is_wide(uint32_t k_dim, uint32_t v_dim) noexcept {
  return k_dim > kMaxHeadDim || v_dim > kMaxHeadDim;
}

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}
// Padded sizes of a head: whole vectors of every instruction set, two of them for K's pairs.
constexpr uint32_t padded_k(uint32_t k_dim) noexcept {
  return static_cast<uint32_t>(round_up(k_dim, 32));
}
constexpr uint32_t padded_v(uint32_t v_dim) noexcept {
  return static_cast<uint32_t>(round_up(v_dim, 16));
}
// The same where V is worked on in bytes.
constexpr uint32_t padded_bytes(uint32_t v_dim) noexcept {
  return static_cast<uint32_t>(round_up(v_dim, 64));
}

// Entries [low, high) that a row sees and its own, counted along the path that leads to it: of a
// tree's rows only those on the path count, so that a path's sums are those of a chain.
struct Visible {
  uint32_t low = 0;
  uint32_t high = 0;
  uint32_t own = 0;
};

// One layer's call, everything that does not depend on the work item.
struct LayerTask {
  DType dtype = DType::f32;
  KvPlane k_plane;
  KvPlane v_plane;
  bool latent = false;  // V is the beginning of K's rows
  uint32_t block_tokens = 0;
  uint32_t kv_heads = 0;
  uint32_t query_heads = 0;
  uint32_t k_dim = 0;
  uint32_t v_dim = 0;
  float scale = 0;
  float soft_cap = 0;
  const float* slopes = nullptr;          // [query_heads], or null
  const float* sinks = nullptr;           // [query_heads], or null
  const uint32_t* slots = nullptr;        // [rows]
  const Visible* seen = nullptr;          // [rows]
  const int32_t* tree_parents = nullptr;  // [rows], or null: each row follows the one before it
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;
};

// Some rows of one sequence, some KV heads, some ranges of positions. All queries of several heads
// are max_queries at most.
struct WorkItem {
  const BlockId* blocks = nullptr;  // the sequence's table
  uint32_t kv_head = 0;             // the first
  uint32_t kv_heads = 1;
  uint32_t first_row = 0;
  uint32_t last_row = 0;
  uint32_t first_range = 0;
  uint32_t last_range = 0;
  uint32_t end = 0;  // after the last entry that any of the rows sees
  // From this entry on each row reads along its own path; kNoPath: rows are a chain.
  uint32_t path_from = 0;
  // Where results go, counted in queries: range r, query i of a head at partial + r · queries + i,
  // the next head partial_stride later. kWhole: the item covers all ranges and writes `out`
  // itself.
  uint64_t partial = 0;
  uint64_t partial_stride = 0;
};
inline constexpr uint64_t kWhole = ~uint64_t{0};
inline constexpr uint32_t kNoPath = ~uint32_t{0};

// An item of all ranges whose partial results wait to be merged.
struct SplitItem {
  uint32_t kv_head = 0;
  uint32_t first_row = 0;
  uint32_t last_row = 0;
  uint32_t ranges = 0;
  uint64_t partial = 0;
};

// Floats of one partial result: the weighted sum of V, the maximum and the sum of weights.
constexpr uint64_t partial_floats(uint32_t v_dim) noexcept {
  return padded_v(v_dim) + 16;
}

// Floats of one slice's scratch memory.
constexpr uint64_t scratch_floats(uint32_t k_dim, uint32_t v_dim, bool latent) noexcept {
  const uint64_t k = padded_k(k_dim);
  const uint64_t v = padded_v(v_dim);
  const uint64_t tile = kTileTokens * (latent ? kLatentPart : k > v ? k : v);
  const uint64_t stride = latent                  ? LatentRows::kQueryStride
                          : is_wide(k_dim, v_dim) ? WideHeadRows::kQueryStride
                                                  : HeadRows::kQueryStride;
  const uint64_t a_query = stride + kTileTokens + 2 * padded_bytes(v_dim);
  return round_up(tile + max_queries(latent) * a_query, 64);
}

// Rows of one sequence that have their sums together, and one KV head.
struct ScoreItem {
  const BlockId* blocks = nullptr;  // the sequence's table
  uint32_t kv_head = 0;
  uint32_t first_row = 0;
  uint32_t last_row = 0;
  uint64_t* sums = nullptr;  // [entries]; others may add at the same time
};

struct KernelSet {
  const char* name = nullptr;
  // K and V of batch row `row`, head `head` into the cache; `blocks` is its sequence's table.
  void (*store)(const LayerTask& task, const BlockId* blocks, uint32_t row,
                uint32_t head) = nullptr;
  void (*attend)(const LayerTask& task, const WorkItem& item, float* scratch,
                 float* partials) = nullptr;
  // Merges the partial results of query `query` (row-major over the item's rows and the group's
  // heads) and writes its row of `out`.
  void (*combine)(const LayerTask& task, const SplitItem& item, uint32_t query,
                  const float* partials) = nullptr;
  // Adds what weight the item's queries gave to each entry (AttentionScores). Rows are a chain.
  void (*score)(const LayerTask& task, const ScoreItem& item, float* scratch) = nullptr;
};

extern const KernelSet kPortableKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
extern const KernelSet kAvx512VnniKernels;  // bytes; a cache of i8 or i4 alone
extern const KernelSet kAvx512Bf16Kernels;  // pairs of bf16; a cache of bf16 alone
#elif defined(__aarch64__)
extern const KernelSet kNeonKernels;
#endif

}  // namespace tenon::attention_cpu
