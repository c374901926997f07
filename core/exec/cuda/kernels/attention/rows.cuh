// Attention in f32, for any head_dim, and the ranges of rows that were computed beside each other,
// joined.
#pragma once

#include "core/exec/cuda/kernels/attention/attention.cuh"

namespace tenon::cuda {

template <int dim>
struct PlainLane {
  static constexpr int kElements = dim / 32;
};

// A warp for each row and head, or for each range of them; lanes hold elements of the head. Grid:
// rows · heads, ranges. Not made to be fast.
template <typename Rows, int dim>
__global__ void attend_plain(AttentionView a, Rows k, Rows v, Global<const uint32_t> row_sequence) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x / static_cast<uint32_t>(a.heads);
  const int head = static_cast<int>(blockIdx.x % static_cast<uint32_t>(a.heads));
  const int lane = static_cast<int>(threadIdx.x);
  const Visible seen(a.slots[row], a.window);
  const uint32_t to_range = a.first_ranges[row];
  const bool split = to_range != kWalked;
  uint32_t range = seen.first_range() + blockIdx.y;
  if (split ? range * kSplitEntries >= seen.last : blockIdx.y > 0) return;
  const uint32_t range_end = split ? range + 1 : seen.range_end();
  const int64_t sequence = uint32_t{row_sequence[row]};
  const uint32_t table = a.sequences[3 * sequence + 2];
  const bool tree = a.parents && uint32_t{a.parents[row]} != kNoTree;
  const uint32_t first_row = tree ? uint32_t{a.sequences[3 * sequence]} : 0;
  const uint32_t base = tree ? uint32_t{a.slots[static_cast<int64_t>(first_row)]} : seen.last;
  constexpr int kLaneElements = PlainLane<dim>::kElements;
  float q[kLaneElements] = {};
  float joined[kLaneElements] = {};
  for (int i = 0; i < kLaneElements && lane + 32 * i < a.head_dim; ++i) {
    q[i] = a.q[row * a.q_stride + head * a.head_dim + lane + 32 * i];
  }
  const float slope = a.slopes ? float{a.slopes[head]} : 0.0f;
  float joined_largest = -INFINITY;
  float joined_sum = 0.0f;
  const uint32_t tokens = static_cast<uint32_t>(a.block_tokens);
  const int kv_head = head / (a.heads / a.kv_heads);
  for (; range < range_end; ++range) {
    const uint32_t begin = range * kSplitEntries;
    const uint32_t end = seen.last < begin + kSplitEntries ? seen.last : begin + kSplitEntries;
    float out[kLaneElements] = {};
    float largest = -INFINITY;
    float sum = 0.0f;
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
      const float score = judged_score(a, product, slope, distance_of(entry, seen));
      const float now = fmaxf(largest, score);
      const float shrink = exp2f(largest - now);
      const float weight = exp2f(score - now);
      sum = sum * shrink + weight;
      for (int i = 0; i < kLaneElements && lane + 32 * i < a.v_dim; ++i) {
        out[i] = out[i] * shrink + weight * v(at, lane + 32 * i);
      }
      largest = now;
    }
    const Join join(joined_largest, largest);
    joined_largest = join.largest;
    joined_sum = join(joined_sum, sum);
    for (int i = 0; i < kLaneElements && lane + 32 * i < a.v_dim; ++i) {
      joined[i] = join(joined[i], out[i]);
    }
  }
  if (!split) {
    const Last last(a, head, joined_largest, joined_sum);
    const int64_t to = place_in_out(a, row, head);
    for (int i = 0; i < kLaneElements && lane + 32 * i < a.v_dim; ++i) {
      put_out(a, to + lane + 32 * i, last(joined[i]));
    }
    return;
  }
  const int64_t to = static_cast<int64_t>(to_range + blockIdx.y) * a.heads + head;
  for (int i = 0; i < kLaneElements && lane + 32 * i < a.v_dim; ++i) {
    a.partial[to * a.v_stride + lane + 32 * i] = joined[i];
  }
  if (lane == 0) store_pack(a.sums + 2 * to, Pack<float, 2>{{joined_largest, joined_sum}});
}

// Of a row's ranges, the factors of a batch are made at once; results come in stages, so that some
// are on their way while others are summed up.
inline constexpr int kJoinBatch = kRowThreads;
inline constexpr int kJoinStage = 32;
inline constexpr int kJoinStages = 3;
inline constexpr int kJoinValues = kJoinStage * kRowThreads;  // floats of a stage
inline constexpr uint32_t kJoinSharedBytes =
    (kJoinStages * kJoinValues + kJoinBatch * 4 + kJoinBatch + 4 + kRowThreads / 32) * 4;

// The largest of x of the block's threads up to each.
TENON_DEVICE float largest_so_far(float x, Shared<float> warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (uint32_t by = 1; by < 32; by *= 2) {
    const float other = __shfl_up_sync(kAllLanes, x, by);
    if (lane >= static_cast<int>(by)) x = fmaxf(x, other);
  }
  if (lane == 31) warps[warp] = x;
  __syncthreads();
  for (int i = 0; i < warp; ++i) x = fmaxf(x, warps[i]);
  return x;
}

// Results of the ranges from `begin` on to shared memory, [kJoinStage][kRowThreads].
TENON_DEVICE void copy_ranges(Shared<float> to, const AttentionView& a, int64_t first, int begin,
                              int count) {
  constexpr int kPieces = kRowThreads / 4;
  const int column = static_cast<int>(threadIdx.x) % kPieces * 4;
  const int d = static_cast<int>(blockIdx.z) * kRowThreads + column;
  if (d >= a.v_dim) return;
  const uint32_t bytes = a.v_dim - d < 4 ? static_cast<uint32_t>(a.v_dim - d) * 4 : 16;
  const int end = begin + kJoinStage < count ? begin + kJoinStage : count;
  TENON_UNROLL_BY(8)
  for (int range = begin + static_cast<int>(threadIdx.x) / kPieces; range < end;
       range += kRowThreads / kPieces) {
    copy_async_16(to + ((range - begin) * kRowThreads + column),
                  a.partial + ((first + static_cast<int64_t>(range) * a.heads) * a.v_stride + d),
                  bytes);
  }
}

// Joins a row's ranges in their order. Grid: split rows, heads, parts of kRowThreads columns of V.
__global__ void __launch_bounds__(kRowThreads) join_ranges(AttentionView a) {
  SharedArena arena;
  Shared<float> values = arena.take<float>(kJoinStages * kJoinValues);
  Shared<float> factors = arena.take<float>(kJoinBatch * 4);  // [range]: shrink, weight, sum
  Shared<float> largest_of = arena.take<float>(kJoinBatch + 1);
  Shared<float> warps = arena.take<float>(kRowThreads / 32);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = uint32_t{a.split_rows[static_cast<int64_t>(blockIdx.x)]};
  const int head = static_cast<int>(blockIdx.y);
  const int d = static_cast<int>(blockIdx.z) * kRowThreads + thread;
  const int column = d < a.v_dim ? thread : 0;  // that is there
  const int64_t first = static_cast<int64_t>(uint32_t{a.first_ranges[row]}) * a.heads + head;
  const Visible seen(a.slots[row], a.window);
  const int count = static_cast<int>(seen.range_end() - seen.first_range());
  wait_for_earlier();  // so far nothing was read that kernels write
  let_next_start();
  const auto sums_of = [&](int range) {
    const Pack<float, 2> none = {{-INFINITY, 0.0f}};
    return range < count ? load_pack<2>(a.sums + 2 * (first + int64_t{range} * a.heads)) : none;
  };
  Pack<float, 2> next = sums_of(thread);
  for (int stage = 0; stage < kJoinStages; ++stage) {
    copy_ranges(values + stage * kJoinValues, a, first, stage * kJoinStage, count);
    copy_async_commit();
  }
  float largest = -INFINITY;
  float sum = 0.0f;
  float value = 0.0f;
  for (int begin = 0, stage = 0; begin < count; begin += kJoinStage) {
    if (begin % kJoinBatch == 0) {
      const Pack<float, 2> own = next;
      next = sums_of(begin + kJoinBatch + thread);
      const float so_far = fmaxf(largest, largest_so_far(own[0], warps));
      if (thread == 0) largest_of[0] = largest;
      largest_of[thread + 1] = so_far;
      __syncthreads();
      const Join join(largest_of[thread], own[0]);
      store_pack(factors + 4 * thread, Pack<float, 4>{{join.shrink, join.weight, own[1], 0.0f}});
      largest = largest_of[kJoinBatch];
    }
    copy_async_wait<kJoinStages - 1>();
    __syncthreads();  // factors and the stage are there
    const int end = count - begin < kJoinStage ? count - begin : kJoinStage;
    TENON_UNROLL_BY(8)
    for (int i = 0; i < end; ++i) {
      const Pack<float, 4> by = load_pack<4>(factors + 4 * (begin % kJoinBatch + i));
      sum = fmaf(by.v[2], by.v[1], sum * by.v[0]);
      value =
          fmaf(values[stage * kJoinValues + i * kRowThreads + column], by.v[1], value * by.v[0]);
    }
    __syncthreads();  // they were used
    copy_ranges(values + stage * kJoinValues, a, first, begin + kJoinStages * kJoinStage, count);
    copy_async_commit();
    stage = stage + 1 == kJoinStages ? 0 : stage + 1;
  }
  copy_async_wait<0>();
  if (d >= a.v_dim) return;
  put_out(a, place_in_out(a, row, head) + d, Last(a, head, largest, sum)(value));
}

}  // namespace tenon::cuda
