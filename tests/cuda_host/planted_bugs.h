// Kernels with a mistake in each, and their correct twins (`bug` = false). The lines that a finding
// may name are marked.
#pragma once

#include <tenon/cuda/machine.h>

namespace tenon::cuda::test {

inline constexpr int kThreads = 64;

// Each thread hands a value to its neighbour through shared memory.
template <bool bug>
__global__ void missing_barrier(Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> passed = arena.take<float>(kThreads);
  passed[t] = 0.0f;
  __syncthreads();
  passed[t] = static_cast<float>(t);  // bug: missing_barrier
  if (!bug) __syncthreads();
  out[t] = passed[(t + 32) % kThreads];  // bug: missing_barrier
}

template <bool bug>
__global__ void missing_warp_barrier(Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> passed = arena.take<float>(kThreads);
  passed[t] = 0.0f;
  __syncwarp();
  passed[t] = static_cast<float>(t);  // bug: missing_warp_barrier
  if (!bug) __syncwarp();
  out[t] = passed[t ^ 1];  // bug: missing_warp_barrier
}

template <bool bug>
__global__ void tail(Global<const float> in, Global<float> out, int count) {
  for (int i = static_cast<int>(threadIdx.x); bug ? i <= count : i < count; i += kThreads) {
    const float x = in[i];
    out[i] = x;  // bug: tail
  }
}

template <bool bug>
__global__ void two_writers(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  out[bug ? t / 2 : t] = static_cast<float>(t);  // bug: two_writers
}

// One block writes rows of four as one, and another one single numbers.
template <bool bug>
__global__ void part_of_a_row(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  const auto x = static_cast<float>(t);
  if (blockIdx.x > 0) {
    out[bug ? t : kThreads + t] = x;  // bug: part_of_a_row
  } else if (t < kThreads / 4) {
    store_pack(out + 4 * t, Pack<float, 4>{x, x, x, x});  // bug: part_of_a_row
  }
}

// Rows of 16 bytes come to shared memory asynchronously.
template <bool bug>
__global__ void late_copy(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(4 * kThreads);
  copy_async_16(tile + 4 * t, in + 4 * t);
  copy_async_commit();
  if (!bug) copy_async_wait<0>();
  out[t] = tile[4 * t];  // bug: late_copy
  if (bug) copy_async_wait<0>();
}

template <bool bug>
__global__ void wrong_group(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(8 * kThreads);
  for (int stage = 0; stage < 2; ++stage) {
    copy_async_16(tile + 4 * (t + stage * kThreads), in + 4 * t);
    copy_async_commit();
  }
  copy_async_wait<1>();
  const float first = tile[4 * t];
  if (!bug) copy_async_wait<0>();
  out[t] = first + tile[4 * (t + kThreads)];  // bug: wrong_group
  copy_async_wait<0>();
}

// The thread that waited sees the bytes; the others see them after a barrier.
template <bool bug>
__global__ void copy_without_barrier(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(4 * kThreads);
  copy_async_16(tile + 4 * t, in + 4 * t);  // bug: copy_without_barrier
  copy_async_commit();
  copy_async_wait<0>();
  if (!bug) __syncthreads();
  out[t] = tile[4 * ((t + 32) % kThreads)];  // bug: copy_without_barrier
}

// A stage is filled again while others still read it.
template <bool bug>
__global__ void stage_reused(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(4 * kThreads);
  float sum = 0.0f;
  for (int step = 0; step < 3; ++step) {
    copy_async_16(tile + 4 * t, in + 4 * t);  // bug: stage_reused
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    sum += tile[4 * ((t + 32) % kThreads)];  // bug: stage_reused
    if (!bug) __syncthreads();
  }
  out[t] = sum;
}

template <bool bug>
__global__ void never_waited(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(4 * kThreads);
  copy_async_16(tile + 4 * t, in + 4 * t);  // bug: never_waited
  copy_async_commit();
  if (!bug) copy_async_wait<0>();
  out[t] = 1.0f;
}

template <bool bug>
__global__ void misaligned_load(Global<const float> in, Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  const Pack<float, 4> four = load_pack<4>(in + (bug ? t : 4 * t));  // bug: misaligned_load
  out[t] = four[0];
}

template <bool bug>
__global__ void misaligned_copy(Global<const float> in, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(4 * kThreads);
  copy_async_16(tile + 4 * t, in + (bug ? t + 1 : 4 * t));  // bug: misaligned_copy
  copy_async_commit();
  copy_async_wait<0>();
  out[t] = tile[4 * t];
}

// Rows of 8 elements with a stride that keeps them aligned, or not.
template <bool bug>
__global__ void misaligned_rows(Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<BFloat16> tile = arena.take<BFloat16>(8 * 16);
  for (int i = t; i < 8 * 16; i += kThreads) tile[i] = to_bfloat16(static_cast<float>(i));
  __syncthreads();
  uint32_t r[2];
  load_matrix_x2(r, tile + (t % 8) * (bug ? 12 : 16));  // bug: misaligned_rows
  out[t] = static_cast<float>(r[0] + r[1]);
}

template <bool bug>
__global__ void divergent_barrier(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  if (!bug || t < 16) __syncthreads();  // bug: divergent_barrier
  out[t] = 0.0f;
}

template <bool bug>
__global__ void early_return(Global<float> out, int count) {
  const int t = static_cast<int>(threadIdx.x);
  if (bug && t >= count) return;
  __syncthreads();  // bug: early_return
  if (t < count) out[t] = 0.0f;
}

template <bool bug>
__global__ void two_barriers(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  if (bug && t % 32 == 0) {
    __syncthreads();  // bug: two_barriers
  } else {
    __syncthreads();  // bug: two_barriers
  }
  out[t] = 0.0f;
}

template <bool bug>
__global__ void wrong_mask(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  const uint32_t mask = bug ? 0x0000ffffu : kAllLanes;
  float x = static_cast<float>(t);
  if (t % 32 < 16 || !bug) x += __shfl_xor_sync(mask, x, 16);  // bug: wrong_mask
  out[t] = x;
}

template <bool bug>
__global__ void not_in_mask(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  const uint32_t votes = __ballot_sync(bug ? 0x7fffffffu : kAllLanes, t > 3);  // bug: not_in_mask
  out[t] = static_cast<float>(votes);
}

template <bool bug>
__global__ void divergent_shuffle(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  float x = static_cast<float>(t);
  if (!bug || t % 2 == 0) x += __shfl_xor_sync(kAllLanes, x, 2);  // bug: divergent_shuffle
  out[t] = x;
}

template <bool bug>
__global__ void divergent_mma(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  const uint32_t a[4] = {}, b[2] = {};
  float d[4] = {};
  if (!bug || t < 48) mma_bf16(d, a, b);  // bug: divergent_mma
  out[t] = d[0];
}

template <bool bug>
__global__ void not_filled(Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(kThreads);
  if (!bug || t > 0) tile[t] = 1.0f;
  __syncthreads();
  out[t] = tile[kThreads - 1 - t];  // bug: not_filled
}

template <bool bug>
__global__ void too_little_shared(Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(bug ? 100000 : kThreads);  // bug: too_little_shared
  tile[t] = 1.0f;
  out[t] = tile[t];
}

template <bool bug>
__global__ void writes_input(Global<float> in, Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  if (bug) in[t] = 0.0f;  // bug: writes_input
  out[t] = in[t];
}

// Blocks add to one number.
template <bool bug>
__global__ void plain_sum(Global<float> out) {
  if (threadIdx.x > 0) return;
  if (bug) {
    out[0] += 1.0f;  // bug: plain_sum
  } else {
    atomic_add(out, 1.0f);
  }
}

template <bool bug>
__global__ void next_block(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  const int own = static_cast<int>(blockIdx.x) * kThreads;
  out[own + t] = 1.0f;                            // bug: next_block
  if (bug && own == 0) out[kThreads + t] = 2.0f;  // bug: next_block
}

// After a kernel that wrote `made`.
template <bool bug>
__global__ void reads_early(Global<const float> made, Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  let_next_start();
  if (!bug) wait_for_earlier();
  const float x = made[t];  // bug: reads_early
  wait_for_earlier();
  out[t] = x;
}

// `in` is the host's, and may be read before.
template <bool bug>
__global__ void copies_early(Global<const float> in, Global<const float> made, Global<float> out) {
  SharedArena arena;
  const int t = static_cast<int>(threadIdx.x);
  Shared<float> tile = arena.take<float>(4 * kThreads);
  copy_async_16(tile + 4 * t, bug ? made + t / 16 * 4 : in + 4 * t);  // bug: copies_early
  copy_async_commit();
  wait_for_earlier();
  copy_async_wait<0>();
  out[t] = tile[4 * t];
}

template <bool bug>
__global__ void writes_early(Global<float> out) {
  const int t = static_cast<int>(threadIdx.x);
  if (!bug) wait_for_earlier();
  out[t] = 1.0f;  // bug: writes_early
  wait_for_earlier();
}

template <bool bug>
__global__ void returns_early(Global<float> out, int count) {
  const int t = static_cast<int>(threadIdx.x);
  if (bug && t >= count) return;
  wait_for_earlier();  // bug: returns_early
  if (t < count) out[t] = 1.0f;
}

}  // namespace tenon::cuda::test
