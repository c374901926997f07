// Attention over paged K and V. One kernel serves prompts, chunks and single rows: a tile is 16
// items, rows of a sequence times the query heads that share a KV head, and walks that head's
// entries in steps of 32 from the beginning of a range of kSplitEntries. What a row may not see
// has the score -inf, which changes no bit of its sums. Ranges of a long sequence are computed
// beside each other and added up in their order by the second kernel. Rows that form a tree have a
// kernel of their own, which walks along paths (attention_walk.cuh) and gives each row the bits
// that it has as the end of a chain.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/attention_walk.cuh"

namespace tenon::cuda {

inline constexpr float kLog2E = 1.44269504f;

// `distance`: of the entry from the row's own, 0 or below.
TENON_DEVICE float final_score(const AttentionView& a, float product, float slope, float distance) {
  float score = product * a.scale;
  if (a.cap > 0.0f) score = a.cap * tanhf(score / a.cap);
  if (a.slopes) score += slope * distance;
  return score * kLog2E;
}

TENON_DEVICE float distance_of(uint32_t entry, Visible seen) {
  return static_cast<float>(static_cast<int>(entry) + 1 - static_cast<int>(seen.last));
}

template <int head_dim>
struct AttentionTileShape {
  static constexpr int kStride = head_dim + 8;  // elements: rows of matrices meet no bank twice
  static constexpr int kPieces = head_dim / 8;  // of 16 bytes
};

// kEntries entries of the plane, by the places that lanes know; what nobody sees becomes zero and
// is not read.
template <int head_dim, int warps>
TENON_DEVICE void copy_plain_entries(Shared<BFloat16> to, Global<const BFloat16> plane,
                                     int64_t place) {
  using Shape = AttentionTileShape<head_dim>;
  constexpr int kAll = kEntries * Shape::kPieces;
  TENON_UNROLL_BY(4)  // more would not leave enough registers
  for (int first = 0; first < kAll; first += warps * 32) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kAll % (warps * 32) != 0 && i >= kAll) return;  // whole warps
    const int64_t row = __shfl_sync(kAllLanes, place, i / Shape::kPieces);
    const int piece = i % Shape::kPieces * 8;
    copy_async_16(to + (i / Shape::kPieces * Shape::kStride + piece),
                  plane + (row < 0 ? 0 : row + piece), row < 0 ? 0u : 16u);
  }
}

// The same of a plane that is not bf16. What comes of it is there behind the next barrier, as what
// is copied.
template <int head_dim, int warps>
TENON_DEVICE void copy_quantised_entries(Shared<BFloat16> to, Global<const uint8_t> bytes,
                                         const AttentionView& a, int64_t place) {
  using Shape = AttentionTileShape<head_dim>;
  constexpr int kAll = kEntries * Shape::kPieces;
  for (int i = static_cast<int>(threadIdx.x); i < kAll; i += warps * 32) {
    const int64_t row = __shfl_sync(kAllLanes, place, i / Shape::kPieces);
    const int piece = i % Shape::kPieces * 8;
    Pack<BFloat16, 8> eight = {};
    if (row >= 0) eight = quantised_piece(bytes + row, a.type, a.scale_at, piece);
    store_pack(to + (i / Shape::kPieces * Shape::kStride + piece), eight);
  }
}

template <int head_dim, int warps>
TENON_DEVICE void copy_entries(Shared<BFloat16> to, Global<const BFloat16> plane,
                               Global<const uint8_t> bytes, const AttentionView& a, int64_t place) {
  if (a.type == CacheType::bf16) return copy_plain_entries<head_dim, warps>(to, plane, place);
  copy_quantised_entries<head_dim, warps>(to, bytes, a, place);
}

// q of so many items as bf16; items that are not there are zero.
template <int head_dim, int item_count, int warps>
TENON_DEVICE void load_queries(Shared<BFloat16> to, const AttentionView& a, const Items& items) {
  for (int i = static_cast<int>(threadIdx.x); i < item_count * head_dim; i += warps * 32) {
    const uint32_t item = items.first + static_cast<uint32_t>(i / head_dim);
    float x = 0.0f;
    if (items.there(item)) {
      x = a.q[static_cast<int64_t>(items.row(item)) * a.q_stride + items.head(item) * head_dim +
              i % head_dim];
    }
    to[i / head_dim * AttentionTileShape<head_dim>::kStride + i % head_dim] = to_bfloat16(x);
  }
}

// Running sums of the two rows of a tile that a lane holds a part of: `head_dim` columns of V.
template <int head_dim>
struct Running {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  float out[head_dim / 8][4] = {};
};

// Scores of 16 items × 32 entries → probabilities as the A fragments of the second product, with
// `state` brought to the new largest scores.
template <int head_dim>
TENON_DEVICE void soften(float (&scores)[kEntries / 8][4], const AttentionView& a, uint32_t entry,
                         const Visible (&seen)[2], const float (&slope)[2],
                         Running<head_dim>& state, uint32_t (&p)[kEntries / 16][4]) {
  const uint32_t column = threadIdx.x % 4 * 2;
  TENON_UNROLL
  for (int half = 0; half < 2; ++half) {
    float largest = state.largest[half];
    TENON_UNROLL
    for (int n = 0; n < kEntries / 8; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 2; ++i) {
        const uint32_t own = entry + static_cast<uint32_t>(n * 8 + i) + column;
        float& score = scores[n][half * 2 + i];
        const bool sees = own >= seen[half].first && own < seen[half].last;
        score = sees ? final_score(a, score, slope[half], distance_of(own, seen[half])) : -INFINITY;
        largest = fmaxf(largest, score);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    const float base = largest == -INFINITY ? 0.0f : largest;
    const float shrink = exp2f(state.largest[half] - base);
    float sum = 0.0f;
    TENON_UNROLL
    for (int n = 0; n < kEntries / 8; ++n) {
      const float low = exp2f(scores[n][half * 2] - base);
      const float high = exp2f(scores[n][half * 2 + 1] - base);
      sum += low + high;
      p[n / 2][n % 2 * 2 + half] = pack_bfloat16(low, high);
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    state.sum[half] = state.sum[half] * shrink + sum;
    state.largest[half] = largest;
    TENON_UNROLL
    for (int n = 0; n < head_dim / 8; ++n) {
      state.out[n][half * 2] *= shrink;
      state.out[n][half * 2 + 1] *= shrink;
    }
  }
}

template <int head_dim>
TENON_DEVICE void multiply_keys(float (&scores)[kEntries / 8][4], Shared<BFloat16> q,
                                Shared<BFloat16> k) {
  constexpr int kStride = AttentionTileShape<head_dim>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TENON_UNROLL
  for (int d = 0; d < head_dim; d += 16) {
    uint32_t rows[4];
    load_matrix_x4(rows, q + (lane % 16 * kStride + d + lane / 16 * 8));
    TENON_UNROLL
    for (int n = 0; n < kEntries / 8; n += 2) {
      uint32_t pair[4];
      load_matrix_x4(pair,
                     k + ((n * 8 + lane / 16 * 8 + lane % 8) * kStride + d + lane / 8 % 2 * 8));
      mma_bf16(scores[n], rows, {pair[0], pair[1]});
      mma_bf16(scores[n + 1], rows, {pair[2], pair[3]});
    }
  }
}

template <int head_dim, int kStride>
TENON_DEVICE void multiply_values(Running<head_dim>& state, const uint32_t (&p)[kEntries / 16][4],
                                  Shared<BFloat16> v) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TENON_UNROLL
  for (int e = 0; e < kEntries / 16; ++e) {
    TENON_UNROLL
    for (int n = 0; n < head_dim / 8; n += 2) {
      uint32_t pair[4];
      load_matrix_x4_transposed(
          pair, v + ((e * 16 + lane / 8 % 2 * 8 + lane % 8) * kStride + n * 8 + lane / 16 * 8));
      mma_bf16(state.out[n], p[e], {pair[0], pair[1]});
      mma_bf16(state.out[n + 1], p[e], {pair[2], pair[3]});
    }
  }
}

// The columns of V from `first` on; its rows have v_dim.
template <int v_dim, int columns>
TENON_DEVICE void put_partial(const AttentionView& a, const Items& items, uint32_t item,
                              const Running<columns>& state, int half, int first = 0) {
  if (!items.there(item)) return;
  const int64_t at =
      (static_cast<int64_t>(blockIdx.z) * a.rows + items.row(item)) * a.heads + items.head(item);
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  TENON_UNROLL
  for (int n = 0; n < columns / 8; ++n) {
    const Pack<float, 2> two = {{state.out[n][half * 2], state.out[n][half * 2 + 1]}};
    store_pack(a.partial + (at * v_dim + first + n * 8 + column), two);
  }
  if (column != 0 || first != 0) return;
  a.sums[2 * at] = state.largest[half];
  a.sums[2 * at + 1] = state.sum[half];
}

// What the two rows of a tile that a lane holds a part of see, and their heads' slopes.
TENON_DEVICE void look_at_items(const AttentionView& a, const Items& items, uint32_t item,
                                Visible (&seen)[2], float (&slope)[2]) {
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t own = item + 8 * half;
    slope[half] = 0.0f;
    if (!items.there(own)) continue;
    seen[half] = Visible(a.slots[static_cast<int64_t>(items.row(own))], a.window);
    if (a.slopes) slope[half] = a.slopes[items.head(own)];
  }
}

template <int head_dim, int warps, typename Walk>
TENON_DEVICE void attend_tile(const AttentionView& a) {
  constexpr int kStride = AttentionTileShape<head_dim>::kStride;
  SharedArena arena;
  Shared<BFloat16> q = arena.take<BFloat16>(16 * warps * kStride);
  Shared<BFloat16> k = arena.take<BFloat16>(kEntries * kStride);
  Shared<BFloat16> v = arena.take<BFloat16>(kEntries * kStride);
  const Items items(a, blockIdx.x, static_cast<int>(blockIdx.y));
  Walk walk(a, items, 16 * warps, blockIdx.z * kSplitEntries);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t item = items.first + static_cast<uint32_t>(warp * 16) + threadIdx.x % 32 / 4;
  Visible seen[2];
  float slope[2];
  look_at_items(a, items, item, seen, slope);
  load_queries<head_dim, 16 * warps, warps>(q, a, items);
  Running<head_dim> state;
  int64_t place = -1;  // of this lane's entry: in the step's V, then in the next K
  if (walk.more()) {
    place = walk.place(a, items);
    copy_entries<head_dim, warps>(k, a.k, a.k_bytes, a, place);
  }
  copy_async_commit();
  while (walk.more()) {
    copy_async_wait<0>();
    __syncthreads();  // K is there, and the last V was used
    copy_entries<head_dim, warps>(v, a.v, a.v_bytes, a, place);
    copy_async_commit();
    float scores[kEntries / 8][4] = {};
    multiply_keys<head_dim>(scores, q + warp * 16 * kStride, k);
    copy_async_wait<0>();
    __syncthreads();  // V is there, and K was used
    const uint32_t entry = walk.entry();
    const Visible shown[2] = {walk.show(seen[0], items.row(item)),
                              walk.show(seen[1], items.row(item + 8))};
    walk.advance(a);
    if (walk.more()) {
      place = walk.place(a, items);
      copy_entries<head_dim, warps>(k, a.k, a.k_bytes, a, place);
    }
    copy_async_commit();
    uint32_t p[kEntries / 16][4];
    soften<head_dim>(scores, a, entry, shown, slope, state, p);
    multiply_values<head_dim, kStride>(state, p, v);
  }
  put_partial<head_dim>(a, items, item, state, 0);
  put_partial<head_dim>(a, items, item + 8, state, 1);
}

// Grid: tiles, KV heads, ranges.
template <int head_dim, int warps>
__global__ void __launch_bounds__(warps * 32, 2) attend_tiles(AttentionView a) {
  attend_tile<head_dim, warps, ChainWalk>(a);
}

// Of trees, which have few rows.
template <int head_dim>
__global__ void __launch_bounds__(32, 2) attend_tree(AttentionView a) {
  attend_tile<head_dim, 1, TreeWalk>(a);
}

// The same in f32, for any head_dim: a warp for each row, head and range; lanes hold elements of
// the head. Grid: rows · heads, ranges. Not made to be fast.
template <int dim>
struct PlainLane {
  static constexpr int kElements = dim / 32;
};

template <typename Rows, int dim>
__global__ void attend_plain(AttentionView a, Rows k, Rows v, Global<const uint32_t> row_sequence) {
  const int64_t row = blockIdx.x / static_cast<uint32_t>(a.heads);
  const int head = static_cast<int>(blockIdx.x % static_cast<uint32_t>(a.heads));
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t sequence = uint32_t{row_sequence[row]};
  const uint32_t table = a.sequences[3 * sequence + 2];
  const Visible seen(a.slots[row], a.window);
  const uint32_t begin = blockIdx.y * kSplitEntries;
  const uint32_t end = seen.last < begin + kSplitEntries ? seen.last : begin + kSplitEntries;
  const bool tree = a.parents && uint32_t{a.parents[row]} != kNoTree;
  const uint32_t first_row = tree ? uint32_t{a.sequences[3 * sequence]} : 0;
  const uint32_t base = tree ? uint32_t{a.slots[static_cast<int64_t>(first_row)]} : end;
  constexpr int kLaneElements = PlainLane<dim>::kElements;
  float q[kLaneElements] = {};
  float out[kLaneElements] = {};
  for (int i = 0; i < kLaneElements && lane + 32 * i < a.head_dim; ++i) {
    q[i] = a.q[row * a.q_stride + head * a.head_dim + lane + 32 * i];
  }
  const float slope = a.slopes ? float{a.slopes[head]} : 0.0f;
  float largest = -INFINITY;
  float sum = 0.0f;
  const uint32_t tokens = static_cast<uint32_t>(a.block_tokens);
  const int kv_head = head / (a.heads / a.kv_heads);
  for (uint32_t entry = begin > seen.first ? begin : seen.first; entry < end; ++entry) {
    const uint32_t slot =
        entry < base ? entry : path_slot(a, first_row, base, static_cast<uint32_t>(row), entry);
    const int64_t block = int32_t{a.tables[static_cast<int64_t>(table + slot / tokens)]};
    const int64_t at = (block * a.kv_heads + kv_head) * a.block_tokens + slot % tokens;
    float product = 0.0f;
    for (int i = 0; i < kLaneElements && lane + 32 * i < a.head_dim; ++i) {
      product = fmaf(q[i], k(at, lane + 32 * i), product);
    }
    for (int with = 16; with > 0; with /= 2) product += __shfl_xor_sync(kAllLanes, product, with);
    const float score = final_score(a, product, slope, distance_of(entry, seen));
    const float now = fmaxf(largest, score);
    const float shrink = exp2f(largest - now);
    const float weight = exp2f(score - now);
    sum = sum * shrink + weight;
    for (int i = 0; i < kLaneElements && lane + 32 * i < a.v_dim; ++i) {
      out[i] = out[i] * shrink + weight * v(at, lane + 32 * i);
    }
    largest = now;
  }
  const int64_t to = static_cast<int64_t>(blockIdx.y) * a.rows * a.heads + blockIdx.x;
  for (int i = 0; i < kLaneElements && lane + 32 * i < a.v_dim; ++i) {
    a.partial[to * a.v_dim + lane + 32 * i] = out[i];
  }
  if (lane != 0) return;
  a.sums[2 * to] = largest;
  a.sums[2 * to + 1] = sum;
}

// Adds up a row's ranges in their order, and the head's sink. Grid: rows · heads.
template <typename T>
__global__ void combine_splits(AttentionView a, Global<const float> sinks, Global<T> out,
                               int out_stride, int out_head_stride) {
  const int64_t row = blockIdx.x / static_cast<uint32_t>(a.heads);
  const int head = static_cast<int>(blockIdx.x % static_cast<uint32_t>(a.heads));
  const uint32_t splits = uint32_t{a.slots[row]} / kSplitEntries + 1;
  for (int d = static_cast<int>(threadIdx.x); d < a.v_dim; d += kRowThreads) {
    float largest = -INFINITY;
    float sum = 0.0f;
    float value = 0.0f;
    for (uint32_t split = 0; split < splits; ++split) {
      const int64_t at = static_cast<int64_t>(split) * a.rows * a.heads + blockIdx.x;
      const float own = a.sums[2 * at];
      if (own == -INFINITY) continue;
      const float now = fmaxf(largest, own);
      const float shrink = exp2f(largest - now);
      const float weight = exp2f(own - now);
      sum = sum * shrink + a.sums[2 * at + 1] * weight;
      value = value * shrink + a.partial[at * a.v_dim + d] * weight;
      largest = now;
    }
    if (sinks) {
      const float sink = sinks[head] * kLog2E;
      const float now = fmaxf(largest, sink);
      sum = sum * exp2f(largest - now) + exp2f(sink - now);
      value *= exp2f(largest - now);
    }
    put(out, row * out_stride + static_cast<int64_t>(head) * out_head_stride + d, value / sum);
  }
}

}  // namespace tenon::cuda
