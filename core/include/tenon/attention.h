// AttentionKernel: writes a step's K and V into the cache and computes attention over it.
//
// For every row r of sequence s and query head h, with g = h / (query_heads / kv_heads):
//   score(p) = scale · q[r,h] · K[s,p,g]         for each visible position p
//   out[r,h] = Σ_p softmax(score)(p) · V[s,p,g]
// Visible are positions 0 … slot(r), cut to the last `window_tokens` of them where the layer has a
// window. K and V are always read back from the cache, in its element type, also those that this
// very step stored: so chunking a prompt changes no bit. Sums run over fixed ranges of positions
// that start at 0, in an order that depends on shape and format alone.
//
// A kernel promises equal bits for a row whatever else is in the batch, however the prompt was
// chunked, whatever the block size, and however many slices there are (else it states the fact
// numerics.rows = batch). Slots beyond a sequence's kv_tokens may hold anything, NaN included.
//
// Threads: `bind` and `workspace_bytes` are [control], `plan` and `phases` are [step], `run` is
// [worker]. For few rows an executor may give every worker a copy of q and k of its own; calls then
// differ in these pointers alone, which lead to the same values.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

// Where a layer's K or V of position p, head h lies:
//   base + block·block_bytes + h·head_bytes + (p mod block_tokens)·token_bytes
// `token_bytes` covers the elements and, for quantised caches, what stands behind them.
struct KvPlane {
  std::byte* base = nullptr;
  uint64_t block_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t token_bytes = 0;
};

// One row of K or V (a token, a head) in the cache. bf16 values are little-endian; a row of
// quantised elements is aligned to 2 bytes and stands alone, so that copying a token copies all.
//   f32 f16 bf16   the elements
//   i8    [dim signed bytes] [pad to 2] [bf16 scale]             x = q · scale, -127 <= q <= 127
//   i4    [dim nibbles, low first] [pad to 2] [bf16 scale] [bf16 least]
//                                                         x = u · scale + least,  0 <= u <= 15
// From a row of f32:
//   i8    scale = bf16(largest |x| / 127),      q = round(x / scale)
//   i4    least = smallest x rounded down to bf16, scale = bf16((largest x - least) / 15),
//         u = round((x - least) / scale)
// in f32, rounding to nearest, ties to even, and cutting off at the ends of the range. A scale of 0
// makes every element 0. A row with an element or a range that is not finite has the scale NaN (and
// least 0): all of it is read back as NaN.
constexpr bool kv_is_quantised(DType dtype) noexcept {
  return dtype == DType::i8 || dtype == DType::i4;
}
// Bytes in front of the scale.
constexpr uint64_t kv_element_bytes(DType dtype, uint32_t dim) noexcept {
  const uint64_t bytes = (uint64_t{dim} * dtype_bits(dtype) + 7) / 8;
  return kv_is_quantised(dtype) ? (bytes + 1) / 2 * 2 : bytes;
}
constexpr uint64_t kv_row_bytes(DType dtype, uint32_t dim) noexcept {
  const uint64_t behind = dtype == DType::i8 ? 2 : dtype == DType::i4 ? 4 : 0;
  return kv_element_bytes(dtype, dim) + behind;
}
struct KvLayerStorage {
  KvPlane k;
  KvPlane v;
};
struct KvStorage {
  DType dtype = DType::f32;
  std::span<const uint32_t> block_tokens;  // [group_count]
  std::span<const KvLayerStorage> layers;  // [model layers]; shared layers repeat
};

struct AttentionLimits {
  uint32_t max_rows = 0;  // rows of a step
  uint32_t max_sequences = 0;
  uint32_t context_tokens = 0;
  uint32_t slices = 1;
};

// One layer's call. All arrays are f32, row-major, on the kernel's device.
struct AttentionCall {
  LayerId layer = 0;
  const float* q = nullptr;  // [rows, query_heads, k_dim], rotated
  const float* k = nullptr;  // [rows, kv_heads, k_dim], rotated; null when the layer shares K/V
  const float* v = nullptr;  // [rows, kv_heads, v_dim]
  float* out = nullptr;      // [rows, query_heads, v_dim]
};

class AttentionKernel {
 public:
  // `model` and `storage` stay valid until the kernel is destroyed.
  virtual Status bind(const ModelShape& model, const KvStorage& storage,
                      const AttentionLimits& limits) noexcept = 0;
  // Scratch memory that `plan` and `run` may use between them.
  virtual uint64_t workspace_bytes() const noexcept = 0;
  // Phases of `run` for the batch that was planned last, at least 1; the executor puts a barrier
  // behind each. Storing K/V is in the first.
  virtual uint32_t phases() const noexcept = 0;

  // Once a step and group, before that step's first `run`. `batch` stays valid through the step.
  virtual Status plan(GroupId group, const BatchView& batch, void* workspace) noexcept = 0;
  virtual Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept = 0;

  // What distinguishes this kernel's bits from another's: part of the numerics id. Static text.
  virtual std::string_view numerics() const noexcept = 0;

 protected:
  ~AttentionKernel() = default;
};

}  // namespace tenon
