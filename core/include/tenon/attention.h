// AttentionKernel: writes a step's K and V into the cache and computes attention over it.
//
// For every row r of sequence s and query head h, with g = h / (query_heads / kv_heads):
//   score(p) = scale · q[r,h] · K[s,p,g]         for each visible position p
//   out[r,h] = Σ_p softmax(score)(p) · V[s,p,g]
// with the layer's soft cap, slopes and sinks if it has them (<tenon/model.h>). Visible are the
// entries before the sequence's rows, then the rows that lead to r and r itself
// (BatchView::tree_parents); of these, those that the group's window shows (first_visible). K and V
// are always read back from the cache, in its element type, also those that this very step stored,
// so chunking a prompt changes no bit. Sums run over fixed ranges of entries that start at 0, in an
// order that depends on shape and format alone.
//
// A kernel promises equal bits for a row whatever else is in the batch, however the prompt was
// chunked, whatever the block size, and however many slices there are (else it states the fact
// numerics.rows = batch). Slots beyond a sequence's kv_tokens may hold anything, NaN included.
//
// `plan` works on the host: it writes what `run` needs to know of the batch into
// `AttentionPlan::plan` and nothing else, so a step may be planned while another one runs. The
// executor brings these bytes to the device, always to the same place, before the step's first
// `run`; so a captured graph may replay `run`, which launches by padded counts and phases alone. On
// the host nothing is copied, and a plan may point into the batch: with attn.chosen, to its tables.
//
// A pipeline may have one kernel for prompts and one for single rows. It keeps the contract where
// `numerics()` of both are the same text; else its numerics.rows is batch.
// Threads: `bind`, `plan_bytes` and `workspace_bytes` are [control], `plan` is [step], `run` is
// [worker]. For few rows each worker may be given copies of q and k of its own, of equal values.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstdint>
#include <span>

namespace tenon {

// Where a layer's K or V of entry i, head h lies:
//   base + block·block_bytes + h·head_bytes + (i mod block_tokens)·token_bytes
// `token_bytes` covers the elements and, in quantised caches, the scales after them. If a group's V
// is inside K (KvKind::latent), both planes are the same, and V is the row's first elements.
struct KvPlane {
  std::byte* base = nullptr;
  uint64_t block_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t token_bytes = 0;
};

// One row of K or V (a token, a head) in the cache. bf16 values are little-endian; a row of
// quantised elements is aligned to 2 bytes and stands alone, so that copying a token copies all.
//   f32 f16 bf16   the elements
//   f8_e4m3        the elements             x = e · scale, of LayerShape::k_scale or v_scale
//   i8    [dim signed bytes] [pad to 2] [bf16 scale]             x = q · scale, -127 <= q <= 127
//   i4    [dim nibbles, low first] [pad to 2] [bf16 scale] [bf16 least]
//                                                         x = u · scale + least,  0 <= u <= 15
// From a row of f32:
//   f8    e = x / scale; NaN stays NaN
//   i8    scale = bf16(largest |x| / 127),      q = round(x / scale)
//   i4    least = smallest x rounded down to bf16, scale = bf16((largest x - least) / 15),
//         u = round((x - least) / scale)
// in f32, rounding to nearest, ties to even, and cutting off at the ends of the range. A scale of 0
// makes every element 0. A row of i8 or i4 with an element or a range that is not finite has the
// scale NaN (and least 0): all of it is read back as NaN.
constexpr bool kv_is_quantised(DType dtype) noexcept {
  return dtype == DType::i8 || dtype == DType::i4;
}
// Bytes before the scale.
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
struct KvGroupStorage {
  DType dtype = DType::f32;
  uint32_t block_tokens = 0;
  std::span<const KvLayerStorage> layers;  // [KvGroup::layers], by LayerShape::index_in_group
};

// The layers and memory that a kernel serves. All of it stays valid until the kernel is destroyed.
struct AttentionBinding {
  const ModelShape* model = nullptr;
  std::span<const GroupId> groups;          // those that this kernel serves; calls name no other
  std::span<const KvGroupStorage> storage;  // [group_count]
  uint32_t max_rows = 0;                    // of a step, padding included
  uint32_t max_sequences = 0;
  uint32_t slices = 1;
  DType dtype = DType::f32;  // of q, k, v and out
  Space space;
};

struct AttentionPlan {
  GroupId group = 0;
  const BatchView* batch = nullptr;  // stays valid through the step
  // The batch's sequences that are this kernel's, rising: if a pipeline has one kernel for
  // prompts and one for single rows, each gets its own. Rows of others are not touched.
  std::span<const uint32_t> sequences;
  void* plan = nullptr;  // plan_bytes(group) of host memory, aligned to 64
};
// What `plan` says about a step, in addition to the bytes that it writes.
struct KernelPlanOut {
  uint32_t phases = 1;      // of `run` for this batch, 1 to 16; a captured graph depends on it
  uint64_t plan_bytes = 0;  // how many leading bytes were written; no others go to the device
};

// One layer's call. Arrays are row-major, in the rows of the whole batch.
struct AttentionCall {
  LayerId layer = 0;
  const void* q = nullptr;     // [rows, query_heads, k_dim], rotated
  const void* k = nullptr;     // [rows, kv_heads, k_dim], rotated; null when the layer shares K/V
  const void* v = nullptr;     // [rows, kv_heads, v_dim]; null if V is inside K
  void* out = nullptr;         // [rows, query_heads, v_dim]
  const void* plan = nullptr;  // what `plan` wrote for the layer's group, in the kernel's space
  void* workspace = nullptr;   // workspace_bytes(group), in the kernel's space
  uint32_t padded_rows = 0;
  uint32_t padded_sequences = 0;
  DeviceQueue queue = nullptr;
};

// A kernel on the host may offer this as extension kAttentionScores: how much weight each entry
// got. After the last phase of `run` and a barrier, by the same call, for each row r and entry e it
// sees
//   sums[r][e] += Σ_h round(2^24 · softmax(score)(e))     over the query heads h
// Sums are whole numbers, so no bit depends on an order. Rows of a sequence may share sums, and
// slices add concurrently; null: not wanted. Rows that form trees or see later rows may be refused
// (unsupported). [worker]
inline constexpr std::string_view kAttentionScores = "attention_scores/1";
struct AttentionScores {
  void* self = nullptr;
  Status (*add)(void* self, const AttentionCall& call, std::span<uint64_t* const> sums,
                Slice slice) noexcept = nullptr;
};

class AttentionKernel {
 public:
  virtual Status bind(const AttentionBinding& binding) noexcept = 0;
  // The most that `plan` writes for one group, and the scratch memory of its runs.
  virtual uint64_t plan_bytes(GroupId group) const noexcept = 0;
  virtual uint64_t workspace_bytes(GroupId group) const noexcept = 0;

  // Once for each step and group, before that step's first `run`. The executor puts a barrier after
  // each phase of `run`. Storing K/V is in the first.
  virtual Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept = 0;
  virtual Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept = 0;

  // Distinguishes this kernel's bits from another's: part of the numerics id. Static text.
  virtual std::string_view numerics() const noexcept = 0;

 protected:
  ~AttentionKernel() = default;
};

}  // namespace tenon
