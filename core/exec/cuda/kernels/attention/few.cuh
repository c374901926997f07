// Attention of few items: single rows, drafts, trees, and all of latent attention (DeepSeek-V2,
// arXiv:2405.04434), whose query heads read one row a token, with V as its beginning. Four warps
// share a tile of 16 items: each makes the scores of its 16 entries of a range, all read those of
// all, and each adds up its part of V's columns. All of a range's K and V is asked for at once; for
// what is overlapped with it, other blocks of the multiprocessor are there.
#pragma once

#include "core/exec/cuda/kernels/attention/attention.cuh"

namespace tenon::cuda {

inline constexpr int kLatentRow = 576;
inline constexpr int kLatentValues = 512;
inline constexpr int kFewWarps = kEntries / 16;
inline constexpr int kScoreStride = kEntries + 4;  // floats: neighbouring rows meet no bank twice

// Scores of a tile and a warp's 16 entries.
template <int k_dim>
TENON_DEVICE void multiply_own_keys(float (&scores)[2][4], Shared<BFloat16> q, Shared<BFloat16> k) {
  constexpr int kStride = AttentionTileShape<k_dim>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Shared<BFloat16> from_q = q + (lane % 16 * kStride + lane / 16 * 8);
  const Shared<BFloat16> from_k = k + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8);
  TENON_UNROLL_BY(8)
  for (int d = 0; d < k_dim; d += 16) {
    uint32_t rows[4], pair[4];
    load_matrix_x4(rows, from_q + d);
    load_matrix_x4(pair, from_k + d);
    mma_bf16(scores[0], rows, {pair[0], pair[1]});
    mma_bf16(scores[1], rows, {pair[2], pair[3]});
  }
}

// Fragments of scores to shared memory, [16][kScoreStride], and all of them back.
TENON_DEVICE void share_scores(Shared<float> to, const float (&own)[2][4], int first_entry) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TENON_UNROLL
  for (int i = 0; i < 4; ++i) {
    const Pack<float, 2> two = {{own[i / 2][i % 2 * 2], own[i / 2][i % 2 * 2 + 1]}};
    store_pack(
        to + ((lane / 4 + i % 2 * 8) * kScoreStride + first_entry + i / 2 * 8 + lane % 4 * 2), two);
  }
}
TENON_DEVICE void take_scores(float (&scores)[kEntries / 8][4], Shared<float> from) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TENON_UNROLL
  for (int i = 0; i < kEntries / 4; ++i) {
    const Pack<float, 2> two =
        load_pack<2>(from + ((lane / 4 + i % 2 * 8) * kScoreStride + i / 2 * 8 + lane % 4 * 2));
    scores[i / 2][i % 2 * 2] = two.v[0];
    scores[i / 2][i % 2 * 2 + 1] = two.v[1];
  }
}

// A range's results of an item whose row sees some of it.
template <int v_dim, int pairs>
TENON_DEVICE void put_range(const AttentionView& a, int64_t at, int half,
                            const Running<pairs>& state, int first) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  TENON_UNROLL
  for (int i = 0; i < pairs * 2; ++i) {
    const int pair = first + i / 2 * kFewWarps;
    if (v_dim / 16 % kFewWarps != 0 && pair >= v_dim / 16) break;
    const float(&own)[4] = state.out[i / 2][i % 2];
    store_pack(a.partial + (at * v_dim + pair * 16 + i % 2 * 8 + column),
               Pack<float, 2>{{own[half * 2], own[half * 2 + 1]}});
  }
  if (column != 0 || first != 0) return;
  store_pack(a.sums + 2 * at, Pack<float, 2>{{state.largest[half], state.sum[half]}});
}

template <int k_dim, int v_dim, bool quantised, typename Walk>
TENON_DEVICE void attend_tile(const AttentionView& a) {
  constexpr int kStride = AttentionTileShape<k_dim>::kStride;
  constexpr int kPairs = v_dim / 16;
  constexpr int kOwnPairs = (kPairs + kFewWarps - 1) / kFewWarps;
  constexpr bool kInside = k_dim != v_dim;
  const Items items(a, blockIdx.x, static_cast<int>(blockIdx.y));
  const bool split = a.first_ranges[static_cast<int64_t>(items.row(items.first))] != kWalked;
  Walk walk(a, items, kTileItems, {split, blockIdx.z});
  wait_for_earlier();  // so far nothing was read that kernels write
  let_next_start();
  // A range that none of these rows sees, or rows along whose ranges one block walks.
  if (!walk.more() || (!split && blockIdx.z > 0)) return;

  SharedArena arena;
  Shared<BFloat16> q = arena.take<BFloat16>(16 * kStride);
  Shared<BFloat16> k = arena.take<BFloat16>(kEntries * kStride);
  Shared<BFloat16> v = kInside ? k : arena.take<BFloat16>(kEntries * kStride);
  Shared<float> all_scores = arena.take<float>(16 * kScoreStride);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t first_entry = walk.entry();
  Running<kOwnPairs> state;
  const auto copy = [&] {
    const int place = own_place<kFewWarps>(walk, a, items);
    copy_entries<k_dim, kFewWarps, quantised>(k, a.k, a.k_bytes, a, place);
    copy_async_commit();
    if (!kInside) copy_entries<k_dim, kFewWarps, quantised>(v, a.v, a.v_bytes, a, place);
    copy_async_commit();
  };
  copy();
  const uint32_t item = items.first + threadIdx.x % 32 / 4;
  Visible seen[2];
  float slope[2];
  look_at_items(a, items, item, seen, slope);
  load_queries<k_dim, kTileItems, kFewWarps>(q, a, items);
  while (true) {
    copy_async_wait<1>();
    __syncthreads();  // K is there, and q
    float own[2][4] = {};
    multiply_own_keys<k_dim>(own, q, k + warp * 16 * kStride);
    share_scores(all_scores, own, warp * 16);
    copy_async_wait<0>();
    __syncthreads();  // scores are there, and V
    float scores[kEntries / 8][4];
    take_scores(scores, all_scores);
    const Visible shown[2] = {walk.show(seen[0], items.row(item)),
                              walk.show(seen[1], items.row(item + 8))};
    uint32_t p[kEntries / 16][4];
    const RangeSums range = soften(scores, a, walk.entry(), shown, slope, true, p);
    const Pack<float, 2> weight = join_sums(state, range);
    TENON_UNROLL
    for (int i = 0; i < kOwnPairs; ++i) {
      const int pair = warp + i * kFewWarps;
      if (kPairs % kFewWarps != 0 && pair >= kPairs) break;  // a whole warp
      add_values<kStride>(state.out[i], p, weight, v + pair * 16);
    }
    walk.advance(a);
    if (!walk.more()) break;
    __syncthreads();  // scores and entries were used
    copy();
  }
  TENON_UNROLL
  for (int half = 0; half < 2; ++half) {
    const uint32_t own = item + 8 * static_cast<uint32_t>(half);
    if (!items.there(own)) continue;
    if (!split) {
      put_item<v_dim>(a, items, own, half, state, warp, kFewWarps);
      continue;
    }
    if (!seen[half].some_from(first_entry)) continue;
    const uint32_t first = a.first_ranges[static_cast<int64_t>(items.row(own))];
    const uint32_t at = first + first_entry / kSplitEntries - seen[half].first_range();
    put_range<v_dim>(a, static_cast<int64_t>(at) * a.heads + items.head(own), half, state, warp);
  }
}

// Of a multiprocessor that registers have to leave room for.
template <int k_dim>
inline constexpr int kFewBlocks = k_dim > 128 ? 2 : 4;

// Grid: tiles, KV heads, ranges.
template <int k_dim, int v_dim, bool quantised>
__global__ void __launch_bounds__(kFewWarps * 32, kFewBlocks<k_dim>) attend_few(AttentionView a) {
  attend_tile<k_dim, v_dim, quantised, ChainWalk>(a);
}
template <int k_dim, int v_dim, bool quantised>
__global__ void __launch_bounds__(kFewWarps * 32, 2) attend_tree(AttentionView a) {
  attend_tile<k_dim, v_dim, quantised, TreeWalk>(a);
}

}  // namespace tenon::cuda
