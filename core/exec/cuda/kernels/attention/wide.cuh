// Attention of prompts: warps have 16 items each, share what is copied of K and V, and walk along
// all ranges that their rows see.
#pragma once

#include "core/exec/cuda/kernels/attention/attention.cuh"

namespace tenon::cuda {

inline constexpr int kWideWarps = 8;  // of a block
// Warps that have the same items, and each a part of V's columns: of wide heads one warp's
// registers do not hold all. A wide tile is then that of two blocks, for which shared memory has
// room.
template <int head_dim>
inline constexpr int kWideParts = head_dim > 128 ? 2 : 1;
template <int head_dim>
inline constexpr int kBlockItems = 16 * kWideWarps / kWideParts<head_dim>;
// Blocks that a multiprocessor's registers have to leave room for.
template <int head_dim>
inline constexpr int kWideResident = 1;
template <int head_dim>
inline constexpr uint32_t kWideBlocks = kWideItems / kBlockItems<head_dim>;
// With two stages of K and V a step is copied while the one in front of it is computed, and q,
// which lies in the second stage before that is used, stays in registers. With one, q stays in
// shared memory, V is copied while scores are made, and the next K while V is multiplied.
template <int head_dim>
inline constexpr int kWideStages = head_dim > 128 ? 1 : 2;

template <int head_dim>
constexpr uint32_t wide_shared_elements() {
  const uint32_t q_rows = kWideStages<head_dim> == 1 ? kBlockItems<head_dim> : 0;
  return (q_rows + 2 * kWideStages<head_dim> * kSplitEntries) *
         AttentionTileShape<head_dim>::kStride;
}

// A warp's q, as the A fragments of the first product: in registers, or read again for each step.
template <int head_dim>
struct KeptQueries {
  uint32_t rows[head_dim / 16][4];
  TENON_DEVICE explicit KeptQueries(Shared<BFloat16> q) {
    TENON_UNROLL
    for (int d = 0; d < head_dim / 16; ++d) load_matrix_x4(rows[d], q + d * 16);
  }
  TENON_DEVICE void take(uint32_t (&some)[4], int d) const {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) some[i] = rows[d][i];
  }
};
struct SharedQueries {
  Shared<BFloat16> q;
  TENON_DEVICE void take(uint32_t (&some)[4], int d) const { load_matrix_x4(some, q + d * 16); }
};

template <int head_dim, typename Queries>
TENON_DEVICE void multiply_keys(float (&scores)[kEntries / 8][4], const Queries& q,
                                Shared<BFloat16> k) {
  constexpr int kStride = AttentionTileShape<head_dim>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Shared<BFloat16> own = k + ((lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8);
  TENON_UNROLL
  for (int d = 0; d < head_dim / 16; ++d) {
    uint32_t rows[4];
    q.take(rows, d);
    TENON_UNROLL
    for (int n = 0; n < kEntries / 8; n += 2) {
      uint32_t pair[4];
      load_matrix_x4(pair, own + (n * 8 * kStride + d * 16));
      mma_bf16(scores[n], rows, {pair[0], pair[1]});
      mma_bf16(scores[n + 1], rows, {pair[2], pair[3]});
    }
  }
}

// What the rows of a warp see: those in between see what lies between.
class WarpVisible {
 public:
  TENON_DEVICE WarpVisible(const AttentionView& a, const Items& items, uint32_t first) {
    if (!items.there(first)) return;
    low_end_ = a.slots[static_cast<int64_t>(items.row(first))] + 1;
    high_end_ = a.slots[static_cast<int64_t>(items.last_row(first, 16))] + 1;
  }
  // Whether some row sees some of a range, and whether all see all of it.
  TENON_DEVICE bool some(const AttentionView& a, uint32_t entry) const {
    return entry < high_end_ && entry + kSplitEntries > Visible(low_end_ - 1, a.window).first;
  }
  TENON_DEVICE bool all(const AttentionView& a, uint32_t entry) const {
    return entry + kSplitEntries <= low_end_ && entry >= Visible(high_end_ - 1, a.window).first;
  }

 private:
  uint32_t low_end_ = 0, high_end_ = 0;
};

// A warp's part of a step.
template <int head_dim>
class WideWarp {
 public:
  TENON_DEVICE WideWarp(const AttentionView& a, const Items& items)
      : first_(items.first + static_cast<uint32_t>(own_items())), sees_(a, items, first_) {}

  // Where its items begin among those of the block.
  TENON_DEVICE static int own_items() { return static_cast<int>(threadIdx.x) / 32 / kParts * 16; }

  TENON_DEVICE bool looks(const AttentionView& a, uint32_t entry) const {
    return sees_.some(a, entry);
  }
  template <typename Queries>
  TENON_DEVICE void judge(const AttentionView& a, const Items& items, const Queries& q,
                          Shared<BFloat16> k, uint32_t entry) {
    float scores[kEntries / 8][4] = {};
    multiply_keys<head_dim>(scores, q, k);
    const bool masked = !sees_.all(a, entry);
    Visible seen[2];
    float slope[2];
    // Most steps need nothing of that, and it would take registers.
    if (masked || a.judged) look_at_items(a, items, item(), seen, slope);
    weight_ = join_sums(state_, soften(scores, a, entry, seen, slope, masked, p_));
  }
  TENON_DEVICE void add(Shared<BFloat16> v) {
    TENON_UNROLL
    for (int pair = 0; pair < kPairs; ++pair) {
      add_values<AttentionTileShape<head_dim>::kStride>(state_.out[pair], p_, weight_,
                                                        v + (first_pair() + pair) * 16);
    }
  }
  TENON_DEVICE void put(const AttentionView& a, const Items& items) const {
    TENON_UNROLL
    for (int half = 0; half < 2; ++half) {
      const uint32_t own = item() + 8 * static_cast<uint32_t>(half);
      if (items.there(own)) put_item<head_dim>(a, items, own, half, state_, first_pair(), 1);
    }
  }

 private:
  static constexpr int kParts = kWideParts<head_dim>;
  static constexpr int kPairs = head_dim / 16 / kParts;
  TENON_DEVICE static int first_pair() {
    return static_cast<int>(threadIdx.x) / 32 % kParts * kPairs;
  }
  TENON_DEVICE uint32_t item() const { return first_ + threadIdx.x % 32 / 4; }

  uint32_t first_;
  WarpVisible sees_;
  Running<kPairs> state_;
  uint32_t p_[kEntries / 16][4];  // of the step
  Pack<float, 2> weight_;
};

template <int head_dim, bool quantised>
TENON_DEVICE void walk_with_one_stage(const AttentionView& a, const Items& items) {
  constexpr int kStride = AttentionTileShape<head_dim>::kStride;
  constexpr int kItems = kBlockItems<head_dim>;
  SharedArena arena;
  Shared<BFloat16> q = arena.take<BFloat16>(kItems * kStride);
  Shared<BFloat16> k = arena.take<BFloat16>(kEntries * kStride);
  Shared<BFloat16> v = arena.take<BFloat16>(kEntries * kStride);
  ChainWalk walk(a, items, kItems, {false, 0});
  int place = own_place<kWideWarps>(walk, a, items);
  copy_entries<head_dim, kWideWarps, quantised>(k, a.k, a.k_bytes, a, place);
  copy_async_commit();
  load_queries<head_dim, kItems, kWideWarps>(q, a, items);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = WideWarp<head_dim>::own_items() + lane % 16;
  const SharedQueries own{q + (row * kStride + lane / 16 * 8)};
  WideWarp<head_dim> warp(a, items);
  while (walk.more()) {
    copy_async_wait<0>();
    __syncthreads();  // K is there, and the last V was used
    copy_entries<head_dim, kWideWarps, quantised>(v, a.v, a.v_bytes, a, place);
    copy_async_commit();
    const uint32_t entry = walk.entry();
    walk.advance(a);
    if (walk.more()) place = own_place<kWideWarps>(walk, a, items);
    const bool looks = warp.looks(a, entry);
    if (looks) warp.judge(a, items, own, k, entry);
    copy_async_wait<0>();
    __syncthreads();  // V is there, and K was used
    if (walk.more()) copy_entries<head_dim, kWideWarps, quantised>(k, a.k, a.k_bytes, a, place);
    copy_async_commit();
    if (looks) warp.add(v);
  }
  warp.put(a, items);
}

template <int head_dim, bool quantised>
TENON_DEVICE void walk_with_two_stages(const AttentionView& a, const Items& items) {
  constexpr int kStride = AttentionTileShape<head_dim>::kStride;
  constexpr int kItems = kBlockItems<head_dim>;
  constexpr int kPlane = kEntries * kStride;
  constexpr int kStage = 2 * kPlane;
  static_assert(kItems <= 2 * kEntries, "q fits into a stage");
  SharedArena arena;
  Shared<BFloat16> stages = arena.take<BFloat16>(2 * kStage);
  ChainWalk walk(a, items, kItems, {false, 0});
  const auto copy = [&](int stage, int place) {
    const Shared<BFloat16> to = stages + stage * kStage;
    copy_entries<head_dim, kWideWarps, quantised>(to, a.k, a.k_bytes, a, place);
    copy_entries<head_dim, kWideWarps, quantised>(to + kPlane, a.v, a.v_bytes, a, place);
  };
  ChainWalk ahead = walk;  // of what is copied
  copy(0, own_place<kWideWarps>(ahead, a, items));
  copy_async_commit();
  load_queries<head_dim, kItems, kWideWarps>(stages + kStage, a, items);
  ahead.advance(a);
  int place = own_place<kWideWarps>(ahead, a, items);  // looked up a step before it is used
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = WideWarp<head_dim>::own_items() + lane % 16;
  const KeptQueries<head_dim> q(stages + (kStage + row * kStride + lane / 16 * 8));
  WideWarp<head_dim> warp(a, items);
  for (int stage = 0; walk.more(); stage ^= 1) {
    copy_async_wait<0>();
    __syncthreads();  // the step is there, and the last one, or q, was used
    if (ahead.more()) {
      copy(stage ^ 1, place);
      ahead.advance(a);
      place = own_place<kWideWarps>(ahead, a, items);
    }
    copy_async_commit();
    const uint32_t entry = walk.entry();
    walk.advance(a);
    if (!warp.looks(a, entry)) continue;
    const Shared<BFloat16> k = stages + stage * kStage;
    warp.judge(a, items, q, k, entry);
    warp.add(k + kPlane);
  }
  warp.put(a, items);
}

// Grid: blocks of tiles · KV heads, the last tiles first: they see the most.
template <int head_dim, bool quantised>
__global__ void __launch_bounds__(kWideWarps * 32, kWideResident<head_dim>)
    attend_wide(AttentionView a) {
  let_next_start();
  wait_for_earlier();
  const uint32_t back = gridDim.x - 1 - blockIdx.x;
  const uint32_t kv_heads = static_cast<uint32_t>(a.kv_heads);
  const uint32_t block = back / kv_heads;
  Items items(a, block / kWideBlocks<head_dim>, static_cast<int>(back % kv_heads));
  items.first += block % kWideBlocks<head_dim> * kBlockItems<head_dim>;
  if (!items.there(items.first)) return;
  if constexpr (kWideStages<head_dim> == 1) {
    walk_with_one_stage<head_dim, quantised>(a, items);
  } else {
    walk_with_two_stages<head_dim, quantised>(a, items);
  }
}

}  // namespace tenon::cuda
