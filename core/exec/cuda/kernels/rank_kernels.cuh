// What ranks gathered, on its way to where one device alone would have written it.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launch_ranks.h"

namespace tenon::cuda {

// The rank that has a column.
TENON_DEVICE uint32_t owner_of(const RankColumns& columns, uint32_t column) {
  uint32_t rank = 0;
  while (rank + 1 < columns.ranks && columns.starts[rank + 1] <= column) ++rank;
  return rank;
}

// As put_product adds to what is there.
TENON_DEVICE float placed(float value, float old, bool add, float factor) {
  return add ? fmaf(factor, value, old) : value;
}

// Four columns of a row, of which `element(rank, column of its row)` gives one. `whole`: all four
// are one rank's, and `quad` gives them at once.
template <typename T, typename Element, typename Whole>
TENON_DEVICE void place_quad(const RankColumns& columns, Global<T> row, int quad, bool whole,
                             bool add, float factor, const Element& element,
                             const Whole& whole_quad) {
  const int width = static_cast<int>(columns.starts[columns.ranks]);
  const int first = 4 * quad;
  if (first >= width) return;
  Quad x = {}, old = {};
  if (whole) {
    const uint32_t rank = owner_of(columns, static_cast<uint32_t>(first));
    x = whole_quad(rank, static_cast<uint32_t>(first) - columns.starts[rank]);
  } else {
    for (int e = 0; e < 4 && first + e < width; ++e) {
      const auto column = static_cast<uint32_t>(first + e);
      const uint32_t rank = owner_of(columns, column);
      x[e] = element(rank, column - columns.starts[rank]);
    }
  }
  if (add) old = load_quad(Global<const T>(row), quad, width, whole);
  TENON_UNROLL for (int e = 0; e < 4; ++e) x[e] = placed(x[e], old[e], add, factor);
  store_quad(row, quad, width, whole, x);
}

// Grid: rows, parts of a row of kPlacedColumns, a quad for each thread.
inline constexpr int kPlacedColumns = 4 * kRowThreads;
template <typename T>
__global__ void place_columns_kernel(Global<const T> gathered, Global<T> to, RankColumns columns,
                                     int stride, int to_stride, bool add, float factor,
                                     bool whole) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const int quad = static_cast<int>(blockIdx.y) * kRowThreads + static_cast<int>(threadIdx.x);
  const auto place = [&](uint32_t rank, uint32_t column) {
    return (static_cast<int64_t>(rank) * gridDim.x + row) * stride + column;
  };
  place_quad(
      columns, to + row * to_stride, quad, whole, add, factor,
      [&](uint32_t rank, uint32_t column) { return get(gathered, place(rank, column)); },
      [&](uint32_t rank, uint32_t column) {
        return load_whole_quad(gathered + place(rank, column));
      });
}

__global__ void place_tokens_kernel(Global<const float> gathered, Global<const int32_t> tokens,
                                    Global<float> to, RankColumns tokens_of, int width,
                                    bool whole) {
  let_next_start();
  wait_for_earlier();
  const int64_t row = blockIdx.x;
  const uint32_t rank = owner_of(tokens_of, static_cast<uint32_t>(int32_t{tokens[row]}));
  const int quad = static_cast<int>(blockIdx.y) * kRowThreads + static_cast<int>(threadIdx.x);
  const int64_t from = (static_cast<int64_t>(rank) * gridDim.x + row) * width;
  store_quad(to + row * width, quad, width, whole, load_quad(gathered + from, quad, width, whole));
}

// Boxes with watched pointers.
template <typename T>
struct PeerView {
  Global<T> data[kMostRanks];          // [2, ranks, slot]
  Global<uint32_t> flags[kMostRanks];  // [2, ranks, kPeerBlocks]
  Global<uint32_t> rounds;
  int64_t slot;  // elements
  uint32_t rank, ranks;

  TENON_DEVICE Global<T> slot_of(uint32_t box, uint32_t turn, uint32_t from) const {
    return data[box] + static_cast<int64_t>(turn * ranks + from) * slot;
  }
  TENON_DEVICE Global<uint32_t> flag_of(uint32_t box, uint32_t turn, uint32_t from) const {
    return flags[box] + static_cast<int64_t>((turn * ranks + from) * kPeerBlocks + blockIdx.x);
  }
};

// A block has the same quads of every rank's rows, and meets the same block of every rank: nothing
// has to wait for whole launches.
template <typename T>
__global__ void __launch_bounds__(kPeerThreads)
    peer_gather_kernel(Global<const T> own, Global<T> to, PeerView<T> view, RankColumns columns,
                       uint32_t rows, int stride, int to_stride, bool add, float factor,
                       bool whole) {
  let_next_start();
  wait_for_earlier();
  const uint32_t round = view.rounds[blockIdx.x] + 1;
  const uint32_t turn = round % 2;
  const uint32_t in_row = static_cast<uint32_t>(stride) / 4;
  const uint32_t quads = rows * in_row;
  const auto first = static_cast<uint32_t>(uint64_t{quads} * blockIdx.x / kPeerBlocks);
  const auto end = static_cast<uint32_t>(uint64_t{quads} * (blockIdx.x + 1) / kPeerBlocks);
  const auto width_of = [&](uint32_t rank) {
    return static_cast<int>(columns.starts[rank + 1] - columns.starts[rank]);
  };
  for (uint32_t i = first + threadIdx.x; i < end; i += kPeerThreads) {
    const auto quad = static_cast<int>(i % in_row);
    if (4 * quad >= width_of(view.rank)) continue;
    const int64_t row = static_cast<int64_t>(i / in_row) * stride;
    const Quad x = load_quad(own + row, quad, width_of(view.rank), whole);
    // Each begins with its next one, so that they do not all write to the same.
    for (uint32_t n = 1; n < view.ranks; ++n) {
      const uint32_t peer = (view.rank + n) % view.ranks;
      store_quad(view.slot_of(peer, turn, view.rank) + row, quad, width_of(view.rank), whole, x);
    }
  }
  __syncthreads();
  const uint32_t peer = threadIdx.x;
  if (peer < view.ranks && peer != view.rank) {
    store_release(view.flag_of(peer, turn, view.rank), round);
    wait_acquire(view.flag_of(view.rank, turn, peer), round);
  }
  __syncthreads();
  for (uint32_t i = first + threadIdx.x; i < end; i += kPeerThreads) {
    const auto quad = static_cast<int>(i % in_row);
    const int64_t row = i / in_row;
    for (uint32_t rank = 0; rank < view.ranks; ++rank) {
      const int width = width_of(rank);
      if (4 * quad >= width) continue;
      const Global<const T> from =
          rank == view.rank ? own : Global<const T>(view.slot_of(view.rank, turn, rank));
      const Global<T> there = to + (row * to_stride + columns.starts[rank]);
      Quad x = load_quad(from + row * stride, quad, width, whole);
      Quad old = {};
      if (add) old = load_quad(Global<const T>(there), quad, width, whole);
      TENON_UNROLL for (int e = 0; e < 4; ++e) x[e] = placed(x[e], old[e], add, factor);
      store_quad(there, quad, width, whole, x);
    }
  }
  if (threadIdx.x == 0) view.rounds[blockIdx.x] = round;
}

}  // namespace tenon::cuda
