// Heads on their way to attention: rotation, and the way into the cache. A block has one head of
// one row, its q, its K or its V; of many rows each of its warps has one.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/cache_rows.cuh"
#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

// HeadsCall with watched pointers.
struct HeadsView {
  Global<float> q;
  Global<const float> k, v, angles;
  Global<const uint32_t> blocks, offsets;
  CacheShape cache;
  int q_stride, q_heads, q_dim, kv_stride, k_first, half;
  bool pairs;
  int parts;        // of a row: heads of q, then of K, then of V
  int threads_log;  // 2 to it are those of a part, and those of a block kRowThreads
  uint32_t blocks_of_row;

  TENON_HOST_AND_DEVICE int threads() const { return 1 << threads_log; }
};

// Angle i of a row turns the elements `low` and `high` of a head.
struct Turn {
  float cosine, sine;
  int low, high;
  TENON_DEVICE Turn(const HeadsView& h, int64_t row, int i)
      : cosine(h.angles[row * 2 * h.half + i]),
        sine(h.angles[row * 2 * h.half + h.half + i]),
        low(h.pairs ? 2 * i : i),
        high(h.pairs ? 2 * i + 1 : i + h.half) {}
  TENON_DEVICE float turned_low(float a, float b) const { return a * cosine - b * sine; }
  TENON_DEVICE float turned_high(float a, float b) const { return b * cosine + a * sine; }
};

// A head of K or V, element by element, as the cache is to have it.
struct HeadElements {
  Global<const float> head;
  int first, end;  // of what turns
  int64_t row;
  TENON_DEVICE float operator()(const HeadsView& h, int i) const {
    if (i < first || i >= end) return head[i];
    const int own = i - first;
    const Turn turn(h, row, h.pairs ? own / 2 : own < h.half ? own : own - h.half);
    const float a = head[first + turn.low];
    const float b = head[first + turn.high];
    return own == turn.low ? turn.turned_low(a, b) : turn.turned_high(a, b);
  }
};

TENON_DEVICE void turn_query(const HeadsView& h, int64_t row, int part) {
  const Global<float> head = h.q + (row * h.q_stride + static_cast<int64_t>(part) * h.q_dim);
  TENON_UNROLL_BY(2)
  for (int i = static_cast<int>(threadIdx.x) & (h.threads() - 1); i < h.half; i += h.threads()) {
    const Turn turn(h, row, i);
    const float a = head[turn.low];
    const float b = head[turn.high];
    head[turn.low] = turn.turned_low(a, b);
    head[turn.high] = turn.turned_high(a, b);
  }
}

// Of K or V: which head it is, and which row of the cache's plane is its place.
struct StoredHead {
  HeadElements from;
  int64_t place;
  bool is_v;
  TENON_DEVICE StoredHead(const HeadsView& h, int64_t row, int part) {
    const CacheShape& cache = h.cache;
    const int own = part - h.q_heads;
    is_v = own >= cache.kv_heads;
    const int64_t head = is_v ? own - cache.kv_heads : own;
    const int64_t at = row * h.kv_stride + head * cache.head_dim;
    from.head = is_v ? h.v + at : h.k + at;
    from.first = h.k_first;
    from.end = is_v || !h.angles ? h.k_first : h.k_first + 2 * h.half;
    from.row = row;
    const int64_t block = uint32_t{h.blocks[row]};
    place = (block * cache.kv_heads + head) * cache.block_tokens + uint32_t{h.offsets[row]};
  }
};

// Which head of which row a thread works at.
struct HeadPlace {
  int64_t row;
  int part;
  TENON_DEVICE explicit HeadPlace(const HeadsView& h) {
    const uint32_t own = blockIdx.x / h.blocks_of_row;
    const uint32_t thread = (blockIdx.x - own * h.blocks_of_row) * kRowThreads + threadIdx.x;
    row = own;
    part = static_cast<int>(thread >> h.threads_log);
  }
};

// Planes are [block][head][token][element]. Grid: rows · blocks of a row.
template <typename T>
__global__ void place_heads_kernel(HeadsView h, Global<T> k_plane, Global<T> v_plane) {
  let_next_start();
  wait_for_earlier();
  const HeadPlace at(h);
  if (at.part >= h.parts) return;
  if (at.part < h.q_heads) return turn_query(h, at.row, at.part);
  const StoredHead own(h, at.row, at.part);
  const int dim = h.cache.head_dim;
  const Global<T> to = own.is_v ? v_plane : k_plane;
  TENON_UNROLL_BY(4)
  for (int i = static_cast<int>(threadIdx.x) & (h.threads() - 1); i < dim; i += h.threads()) {
    put(to, own.place * dim + i, own.from(h, i));
  }
}

// The same; a warp's lanes find a row's scale together.
__global__ void place_quantised_kernel(HeadsView h, Global<uint8_t> k_plane,
                                       Global<uint8_t> v_plane, int row_bytes, int scale_at) {
  let_next_start();
  wait_for_earlier();
  const HeadPlace at(h);
  if (at.part >= h.parts) return;
  if (at.part < h.q_heads) return turn_query(h, at.row, at.part);
  const StoredHead own(h, at.row, at.part);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int dim = h.cache.head_dim;
  const Global<uint8_t> to = (own.is_v ? v_plane : k_plane) + own.place * row_bytes;
  float least = INFINITY, most = -INFINITY;
  bool finite = true;
  for (int i = lane; i < dim; i += 32) {
    const float x = own.from(h, i);
    finite = finite && is_finite(x);
    least = fminf(least, x);
    most = fmaxf(most, x);
  }
  finite = __all_sync(kAllLanes, finite);
  for (int with = 16; with > 0; with /= 2) {
    least = fminf(least, __shfl_xor_sync(kAllLanes, least, with));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, with));
  }
  const bool bytes = h.cache.type == CacheType::i8;
  BFloat16 low = {0};
  if (!bytes) low = bfloat16_below(least);
  BFloat16 scale = to_bfloat16(bytes ? (-least < most ? most : -least) / 127.0f
                                     : (most - to_float(low)) / 15.0f);
  if (!finite || !is_finite(to_float(scale)) || !is_finite(to_float(low))) {
    scale = to_bfloat16(NAN);
    low = {0};
  }
  const float s = to_float(scale);
  const float l = to_float(low);
  for (int i = lane; i < scale_at; i += 32) {
    if (bytes) {
      to[i] = i < dim ? quantised(own.from(h, i), s, 0.0f, -127.0f, 127.0f) : uint8_t{0};
      continue;
    }
    const int first = 2 * i < dim ? quantised(own.from(h, 2 * i), s, l, 0.0f, 15.0f) : 0;
    const int second = 2 * i + 1 < dim ? quantised(own.from(h, 2 * i + 1), s, l, 0.0f, 15.0f) : 0;
    to[i] = static_cast<uint8_t>(first | second << 4);
  }
  if (lane != 0) return;
  put_bf16(to + scale_at, scale);
  if (!bytes) put_bf16(to + (scale_at + 2), low);
}

}  // namespace tenon::cuda
