// Attention over paged K and V. A row's entries are summed up in ranges of kSplitEntries from
// position 0 on: a range's largest score, the sum of 2 to what scores are below it, and the sum of
// V's rows by these weights, from nothing; then ranges are joined in their order, each time with
// what is there brought to the larger of both largest scores. What a row may not see has the score
// -inf, which changes no bit of its sums. All kernels do that in the same way:
//   attention_few.cuh   16 items, whose range four warps share: single rows, drafts, trees, and
//                       latent attention. Ranges are computed beside each other.
//   attention_wide.cuh  many items, 16 a warp: prompts. A block walks along the ranges.
//   attention_rows.cuh  the same in f32, for all else; and the ranges that were computed beside
//                       each other, joined
// Here is what the first two have in common.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/attention/walk.cuh"

namespace tenon::cuda {

inline constexpr float kLog2E = 1.44269504f;

// Where there is a cap, or slopes. `distance`: of the entry from the row's own, 0 or below.
TENON_DEVICE float judged_score(const AttentionView& a, float product, float slope,
                                float distance) {
  float score = product * a.scale;
  if (a.cap > 0.0f) score = a.cap * tanhf(score * a.by_cap);
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

// Each warp copies the entries of a step that begin at its own number times this.
template <int warps>
TENON_DEVICE constexpr int copied_entries() {
  return kEntries / warps;
}

// Entries of the plane, by the places that lanes know: lane i that of the warp's entry i, modulo
// their number. What nobody sees becomes zero and is not read.
template <int head_dim, int warps>
TENON_DEVICE void copy_plain_entries(Shared<BFloat16> to, Global<const BFloat16> plane, int place) {
  using Shape = AttentionTileShape<head_dim>;
  constexpr int kAll = copied_entries<warps>() * Shape::kPieces;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Shared<BFloat16> own = to + warp * copied_entries<warps>() * Shape::kStride;
  TENON_UNROLL_BY(4)
  for (int first = 0; first < kAll; first += 32) {
    const int i = first + static_cast<int>(threadIdx.x) % 32;
    const int row = __shfl_sync(kAllLanes, place, i / Shape::kPieces);
    if (kAll % 32 != 0 && i >= kAll) break;
    const int piece = i % Shape::kPieces * 8;
    copy_async_16(own + (i / Shape::kPieces * Shape::kStride + piece),
                  plane + (row < 0 ? 0 : int64_t{row} * head_dim + piece), row < 0 ? 0u : 16u);
  }
}

// The same of a plane that is not bf16. What comes of it is there behind the next barrier, as what
// is copied.
template <int head_dim, int warps>
TENON_DEVICE void copy_quantised_entries(Shared<BFloat16> to, Global<const uint8_t> bytes,
                                         const AttentionView& a, int place) {
  using Shape = AttentionTileShape<head_dim>;
  constexpr int kAll = copied_entries<warps>() * Shape::kPieces;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Shared<BFloat16> own = to + warp * copied_entries<warps>() * Shape::kStride;
  for (int first = 0; first < kAll; first += 32) {
    const int i = first + static_cast<int>(threadIdx.x) % 32;
    const int row = __shfl_sync(kAllLanes, place, i / Shape::kPieces);
    if (kAll % 32 != 0 && i >= kAll) break;
    const int piece = i % Shape::kPieces * 8;
    Pack<BFloat16, 8> eight = {};
    if (row >= 0)
      eight = quantised_piece(bytes + int64_t{row} * a.row_bytes, a.type, a.scale_at, piece);
    store_pack(own + (i / Shape::kPieces * Shape::kStride + piece), eight);
  }
}

template <int head_dim, int warps, bool quantised>
TENON_DEVICE void copy_entries(Shared<BFloat16> to, Global<const BFloat16> plane,
                               Global<const uint8_t> bytes, const AttentionView& a, int place) {
  if constexpr (quantised) {
    copy_quantised_entries<head_dim, warps>(to, bytes, a, place);
  } else {
    copy_plain_entries<head_dim, warps>(to, plane, place);
  }
}

// The place that this lane has to know.
template <int warps, typename Walk>
TENON_DEVICE int own_place(const Walk& walk, const AttentionView& a, const Items& items) {
  constexpr uint32_t kOwn = copied_entries<warps>();
  return walk.place(a, items, threadIdx.x / 32 * kOwn + threadIdx.x % 32 % kOwn);
}

// q of so many items as bf16; items that are not there are zero.
template <int head_dim, int item_count, int warps>
TENON_DEVICE void load_queries(Shared<BFloat16> to, const AttentionView& a, const Items& items) {
  constexpr int kQuads = head_dim / 4;
  constexpr int kAll = item_count * kQuads;
  TENON_UNROLL_BY(4)
  for (int first = 0; first < kAll; first += warps * 32) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (kAll % (warps * 32) != 0 && i >= kAll) break;
    const uint32_t item = items.first + static_cast<uint32_t>(i / kQuads);
    Pack<float, 4> x = {};
    if (items.there(item)) {
      const int64_t at = static_cast<int64_t>(items.row(item)) * a.q_stride +
                         items.head(item) * head_dim + i % kQuads * 4;
      x = load_pack<4>(a.q + at);
    }
    const Pack<BFloat16, 4> four = {
        {to_bfloat16(x[0]), to_bfloat16(x[1]), to_bfloat16(x[2]), to_bfloat16(x[3])}};
    store_pack(to + (i / kQuads * AttentionTileShape<head_dim>::kStride + i % kQuads * 4), four);
  }
}

// Of the two rows of a tile that a lane holds a part of.
struct RangeSums {
  float largest[2];
  float sum[2];
};

// Scores of 16 items × a range's entries → weights, as the A fragments of the second product.
// `masked`: some row may not see all of the range.
TENON_DEVICE RangeSums soften(float (&scores)[kEntries / 8][4], const AttentionView& a,
                              uint32_t entry, const Visible (&seen)[2], const float (&slope)[2],
                              bool masked, uint32_t (&p)[kEntries / 16][4]) {
  const uint32_t column = threadIdx.x % 4 * 2;
  if (a.judged) {
    TENON_UNROLL
    for (int i = 0; i < kEntries / 2; ++i) {
      const uint32_t own = entry + static_cast<uint32_t>(i / 4 * 8 + i % 2) + column;
      const int half = i / 2 % 2;
      float& score = scores[i / 4][i % 4];
      score = judged_score(a, score, slope[half], distance_of(own, seen[half]));
    }
  }
  if (masked) {
    TENON_UNROLL
    for (int i = 0; i < kEntries / 2; ++i) {
      const uint32_t own = entry + static_cast<uint32_t>(i / 4 * 8 + i % 2) + column;
      const int half = i / 2 % 2;
      if (own < seen[half].first || own >= seen[half].last) scores[i / 4][i % 4] = -INFINITY;
    }
  }
  RangeSums range;
  TENON_UNROLL
  for (int half = 0; half < 2; ++half) {
    float largest = -INFINITY;
    TENON_UNROLL
    for (int n = 0; n < kEntries / 8; ++n) {
      largest = fmaxf(largest, fmaxf(scores[n][half * 2], scores[n][half * 2 + 1]));
    }
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    largest *= a.factor;
    const float base = largest == -INFINITY ? 0.0f : largest;
    float sum = 0.0f;
    TENON_UNROLL
    for (int n = 0; n < kEntries / 8; ++n) {
      const float low = exp2_approx(fmaf(scores[n][half * 2], a.factor, -base));
      const float high = exp2_approx(fmaf(scores[n][half * 2 + 1], a.factor, -base));
      sum += low + high;
      p[n / 2][n % 2 * 2 + half] = pack_bfloat16(low, high);
    }
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    range.largest[half] = largest;
    range.sum[half] = sum;
  }
  return range;
}

// What the largest scores of some ranges and of one more make of their sums.
struct Join {
  float largest, shrink, weight;
  TENON_DEVICE Join(float before, float own) : largest(fmaxf(before, own)) {
    const float base = largest == -INFINITY ? 0.0f : largest;
    shrink = exp2_approx(before - base);
    weight = exp2_approx(own - base);
  }
  TENON_DEVICE float operator()(float before, float own) const {
    return fmaf(own, weight, before * shrink);
  }
};

// The ranges so far of the two rows of a tile that a lane holds a part of: of so many pairs of 8
// columns of V.
template <int pairs>
struct Running {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  float out[pairs][2][4] = {};
};

// All but V's sums, which are brought to the new largest scores. Returns the weights of the range.
template <int pairs>
TENON_DEVICE Pack<float, 2> join_sums(Running<pairs>& state, const RangeSums& range) {
  const Join first(state.largest[0], range.largest[0]);
  const Join second(state.largest[1], range.largest[1]);
  state.largest[0] = first.largest;
  state.largest[1] = second.largest;
  state.sum[0] = first(state.sum[0], range.sum[0]);
  state.sum[1] = second(state.sum[1], range.sum[1]);
  // A factor of 1 changes nothing.
  if (__any_sync(kAllLanes, first.shrink != 1.0f || second.shrink != 1.0f)) {
    TENON_UNROLL
    for (int i = 0; i < pairs * 8; ++i) {
      state.out[i / 8][i / 4 % 2][i % 4] *= i % 4 < 2 ? first.shrink : second.shrink;
    }
  }
  return {{first.weight, second.weight}};
}

// A pair of 8 columns of V: its sums of the range from nothing, then with those of the ranges in
// front.
template <int kStride>
TENON_DEVICE void add_values(float (&out)[2][4], const uint32_t (&p)[kEntries / 16][4],
                             const Pack<float, 2>& weight, Shared<BFloat16> v) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Shared<BFloat16> own = v + ((lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8);
  float range[2][4] = {};
  TENON_UNROLL
  for (int e = 0; e < kEntries / 16; ++e) {
    uint32_t pair[4];
    load_matrix_x4_transposed(pair, own + e * 16 * kStride);
    mma_bf16(range[0], p[e], {pair[0], pair[1]});
    mma_bf16(range[1], p[e], {pair[2], pair[3]});
  }
  TENON_UNROLL
  for (int i = 0; i < 8; ++i) {
    out[i / 4][i % 4] = fmaf(range[i / 4][i % 4], weight.v[i % 4 / 2], out[i / 4][i % 4]);
  }
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

// What becomes of V's sums when all ranges were joined: the head's sink, and the quotient.
struct Last {
  float shrink = 1.0f, share;
  TENON_DEVICE Last(const AttentionView& a, int head, float largest, float sum) {
    if (a.sinks) {
      const float sink = a.sinks[head] * kLog2E;
      const float now = fmaxf(largest, sink);
      shrink = exp2_approx(largest - now);
      sum = sum * shrink + exp2_approx(sink - now);
    }
    share = 1.0f / sum;
  }
  // Zeros have no sign: that of one could tell how ranges were joined.
  TENON_DEVICE float operator()(float value) const { return value * shrink * share + 0.0f; }
};

TENON_DEVICE int64_t place_in_out(const AttentionView& a, int64_t row, int head) {
  return row * a.out_stride + static_cast<int64_t>(head) * a.out_head_stride;
}
TENON_DEVICE void put_out(const AttentionView& a, int64_t at, float x) {
  if (a.out) {
    a.out[at] = x;
  } else {
    a.out_bf16[at] = to_bfloat16(x);
  }
}

// A row's result: the pairs of columns `first`, first + step …, of all that V has.
template <int v_dim, int pairs>
TENON_DEVICE void put_item(const AttentionView& a, const Items& items, uint32_t item, int half,
                           const Running<pairs>& state, int first, int step) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  const int64_t to = place_in_out(a, items.row(item), items.head(item));
  const Last last(a, items.head(item), state.largest[half], state.sum[half]);
  TENON_UNROLL
  for (int i = 0; i < pairs * 2; ++i) {
    const int pair = first + i / 2 * step;
    if (v_dim / 16 % step != 0 && pair >= v_dim / 16) break;
    const int64_t at = to + pair * 16 + i % 2 * 8 + column;
    const float(&own)[4] = state.out[i / 2][i % 2];
    const float low = last(own[half * 2]);
    const float high = last(own[half * 2 + 1]);
    if (a.out) {
      store_pack(a.out + at, Pack<float, 2>{{low, high}});
    } else {
      store_pack(a.out_bf16 + at, Pack<BFloat16, 2>{{to_bfloat16(low), to_bfloat16(high)}});
    }
  }
}

}  // namespace tenon::cuda
