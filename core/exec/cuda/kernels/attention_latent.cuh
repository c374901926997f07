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

// Grid: tiles, 1, ranges.
template <int k_dim, int v_dim>
__global__ void __launch_bounds__(kLatentWarps * 32) attend_latent(AttentionView a) {
  constexpr int kStride = AttentionTileShape<k_dim>::kStride;
  constexpr int kColumns = v_dim / kLatentWarps;
  constexpr int kBuffer = kEntries * kStride;
  SharedArena arena;
  Shared<BFloat16> q = arena.take<BFloat16>(16 * kStride);
  Shared<BFloat16> rows = arena.take<BFloat16>(2 * kBuffer);
  Shared<float> all_scores = arena.take<float>(16 * kScoreStride);
  const Items items(a, blockIdx.x, 0);
  const Visible block_sees = seen_by_block<1>(a, items);
  const uint32_t begin = blockIdx.z * kSplitEntries;
  const uint32_t split_end = begin + kSplitEntries;
  const uint32_t end = block_sees.last < split_end ? block_sees.last : split_end;
  uint32_t entry = block_sees.first > begin ? block_sees.first / kEntries * kEntries : begin;

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t item = items.first + threadIdx.x % 32 / 4;
  Visible seen[2];
  float slope[2];
  look_at_items(a, items, item, seen, slope);
  load_queries<k_dim, 16, kLatentWarps>(q, a, items);
  Running<kColumns> state;
  if (entry < end) {
    copy_entries<k_dim, kLatentWarps>(rows, a.k, a.k_bytes, a,
                                      lane_place(a, items, entry, block_sees));
  }
  copy_async_commit();
  for (int buffer = 0; entry < end; entry += kEntries, buffer ^= 1) {
    if (entry + kEntries < end) {
      copy_entries<k_dim, kLatentWarps>(rows + (buffer ^ 1) * kBuffer, a.k, a.k_bytes, a,
                                        lane_place(a, items, entry + kEntries, block_sees));
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
    soften<kColumns>(scores, a, entry, seen, slope, state, p);
    multiply_values<kColumns, kStride>(state, p, rows + (buffer * kBuffer + warp * kColumns));
    __syncthreads();  // scores and entries were used
  }
  put_partial<v_dim>(a, items, item, state, 0, warp * kColumns);
  put_partial<v_dim>(a, items, item + 8, state, 1, warp * kColumns);
}

}  // namespace tenon::cuda
