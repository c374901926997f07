// Latent attention (DeepSeek-V2, arXiv:2405.04434): all query heads read one row a token, whose
// beginning is V. A row is too wide for the registers of one warp, so the warps of a block share a
// tile of 16 items: each makes the scores of its 8 of 32 entries, all read those of all, and each
// adds up its part of V's columns.
#pragma once

#include "core/exec/cuda/kernels/attention.cuh"

namespace tenon::cuda {

inline constexpr int kLatentRow = 576;
inline constexpr int kLatentValues = 512;
inline constexpr int kLatentWarps = kEntries / 8;
inline constexpr int kScoreStride = kEntries + 4;  // floats: neighbouring rows meet no bank twice

// Scores of a tile and a warp's 8 entries.
template <int k_dim>
TENON_DEVICE void multiply_own_keys(float (&scores)[4], Shared<BFloat16> q, Shared<BFloat16> k) {
  constexpr int kStride = AttentionTileShape<k_dim>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int d = 0; d < k_dim; d += 16) {
    uint32_t rows[4], pair[2];
    load_matrix_x4(rows, q + (lane % 16 * kStride + d + lane / 16 * 8));
    load_matrix_x2(pair, k + (lane % 8 * kStride + d + lane / 8 % 2 * 8));
    mma_bf16(scores, rows, pair);
  }
}

// Fragments of scores to shared memory, [16][kScoreStride], and all of them back.
TENON_DEVICE void share_scores(Shared<float> to, const float (&own)[4], int first_entry) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TENON_UNROLL
  for (int i = 0; i < 4; ++i) {
    to[(lane / 4 + i / 2 * 8) * kScoreStride + first_entry + lane % 4 * 2 + i % 2] = own[i];
  }
}
TENON_DEVICE void take_scores(float (&scores)[kEntries / 8][4], Shared<float> from) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TENON_UNROLL
  for (int n = 0; n < kEntries / 8; ++n) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = from[(lane / 4 + i / 2 * 8) * kScoreStride + n * 8 + lane % 4 * 2 + i % 2];
    }
  }
}

template <int k_dim, int v_dim, typename Walk>
TENON_DEVICE void attend_latent_tile(const AttentionView& a) {
  constexpr int kStride = AttentionTileShape<k_dim>::kStride;
  constexpr int kColumns = v_dim / kLatentWarps;
  constexpr int kBuffer = kEntries * kStride;
  SharedArena arena;
  Shared<BFloat16> q = arena.take<BFloat16>(16 * kStride);
  Shared<BFloat16> rows = arena.take<BFloat16>(2 * kBuffer);
  Shared<float> all_scores = arena.take<float>(16 * kScoreStride);
  const Items items(a, blockIdx.x, 0);
  Walk walk(a, items, 16, blockIdx.z * kSplitEntries);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t item = items.first + threadIdx.x % 32 / 4;
  Visible seen[2];
  float slope[2];
  look_at_items(a, items, item, seen, slope);
  load_queries<k_dim, 16, kLatentWarps>(q, a, items);
  Running<kColumns> state;
  if (walk.more()) {
    copy_entries<k_dim, kLatentWarps>(rows, a.k, a.k_bytes, a, walk.place(a, items));
  }
  copy_async_commit();
  for (int buffer = 0; walk.more(); buffer ^= 1) {
    const uint32_t entry = walk.entry();
    const Visible shown[2] = {walk.show(seen[0], items.row(item)),
                              walk.show(seen[1], items.row(item + 8))};
    walk.advance(a);
    if (walk.more()) {
      copy_entries<k_dim, kLatentWarps>(rows + (buffer ^ 1) * kBuffer, a.k, a.k_bytes, a,
                                        walk.place(a, items));
    }
    copy_async_commit();
    copy_async_wait<1>();
    __syncthreads();  // these entries are there
    float own[4] = {};
    multiply_own_keys<k_dim>(own, q, rows + (buffer * kBuffer + warp * 8 * kStride));
    share_scores(all_scores, own, warp * 8);
    __syncthreads();
    float scores[kEntries / 8][4];
    take_scores(scores, all_scores);
    uint32_t p[kEntries / 16][4];
    soften<kColumns>(scores, a, entry, shown, slope, state, p);
    multiply_values<kColumns, kStride>(state, p, rows + (buffer * kBuffer + warp * kColumns));
    __syncthreads();  // scores and entries were used
  }
  put_partial<v_dim>(a, items, item, state, 0, warp * kColumns);
  put_partial<v_dim>(a, items, item + 8, state, 1, warp * kColumns);
}

// Grid: tiles, 1, ranges.
template <int k_dim, int v_dim>
__global__ void __launch_bounds__(kLatentWarps * 32) attend_latent(AttentionView a) {
  attend_latent_tile<k_dim, v_dim, ChainWalk>(a);
}
template <int k_dim, int v_dim>
__global__ void __launch_bounds__(kLatentWarps * 32) attend_latent_tree(AttentionView a) {
  attend_latent_tile<k_dim, v_dim, TreeWalk>(a);
}

}  // namespace tenon::cuda
