// Products of many rows in bf16, as fast as mma.sync goes. Eight warps make a tile of 128 rows and
// share what they read of x and W; each keeps its 64 rows × 64 (or 32) columns of sums in registers
// while four steps of K are on their way to shared memory. An element's sum is the sequence of mma
// and additions that multiply_tile makes.
#pragma once

#include <tenon/cuda/machine.h>

#include <type_traits>

#include "core/exec/cuda/kernels/products/multiply.cuh"

namespace tenon::cuda {

// `totals_in_shared`: where the totals of pieces wait. 64 × 64 sums leave no registers for them.
// `step` elements of K are a stage.
template <int columns, int warp_columns, bool totals_in_shared, int step = 32, int stages = 4>
struct ManyTile {
  static constexpr int kRows = 128;
  static constexpr int kColumns = columns;
  static constexpr int kWarpRows = 64;
  static constexpr int kWarpColumns = warp_columns;
  static constexpr int kStep = step;
  static constexpr int kStages = stages;
  static constexpr uint32_t kTogether = 16;  // tiles of rows, before the next one of columns
  static constexpr bool kTotalsInShared = totals_in_shared;
  static constexpr int kRowTiles = kWarpRows / 16;  // of a warp
  static constexpr int kColumnTiles = kWarpColumns / 8;
  static constexpr int kColumnWarps = kColumns / kWarpColumns;
  static constexpr int kThreads = kRows / kWarpRows * kColumnWarps * 32;
  static constexpr int kStage = (kRows + kColumns) * kStep;  // elements: of x, then of W
  static constexpr int kTotals = totals_in_shared ? kRows * kColumns : 0;
  static constexpr int kSharedBytes = kStages * kStage * 2 + kTotals * 4;
  static_assert(kPieceElements % kStep == 0);
};
struct WideTile : ManyTile<256, 64, true> {};     // 224 KB of shared memory: sm_90
struct NarrowTile : ManyTile<128, 32, false> {};  // 64 KB: all devices

// Rows of a step lie side by side, and their chunks of 16 bytes change places, so that neither
// eight rows of a matrix for ldmatrix nor what cp.async brings meet a bank twice.
template <typename T>
TENON_DEVICE int turned(int row, int chunk) {
  constexpr int kChunks = T::kStep / 8;
  return chunk ^ (row * kChunks / 8 % kChunks);
}

// The chunks that thread number `thread` of T::kThreads copies of each step of a matrix: the same
// one of rows that lie kRowsApart from each other. In place of rows that are not there the last one
// is read, whose results nobody keeps; what is behind a row's end becomes zeros.
template <typename T, int tile_rows>
struct Chunks {
  static constexpr int kRowChunks = T::kStep / 8;
  static constexpr int kRowsApart = T::kThreads / kRowChunks;
  static constexpr int kCount = tile_rows > kRowsApart ? tile_rows / kRowsApart : 1;
  static constexpr bool kIdle = kRowsApart > tile_rows;  // threads that copy nothing
  static_assert(kRowsApart % 8 == 0);
  Global<const BFloat16> from;
  int further[kCount];  // elements
  int bytes;            // of a row from the thread's first chunk on
  int to;               // elements from the beginning of a stage's rows

  TENON_DEVICE Chunks(int thread, Global<const BFloat16> matrix, int64_t first, int64_t count,
                      int row_bytes, int stride) {
    const int row = thread / kRowChunks;
    const int chunk = thread % kRowChunks;
    const int last =
        count - first < tile_rows ? static_cast<int>(count - first) - 1 : tile_rows - 1;
    from = matrix + (first * stride + chunk * 8);
    TENON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int own = row + i * kRowsApart;
      further[i] = (own < last ? own : last) * stride;
    }
    bytes = row_bytes - chunk * 16;
    to = row * T::kStep + turned<T>(row, chunk) * 8;
  }
  // `whole`: the step ends within the rows.
  template <bool whole>
  TENON_DEVICE void copy(Shared<BFloat16> rows, int step) {
    if (kIdle && to >= tile_rows * T::kStep) return;
    const int left = bytes - step * (T::kStep * 2);
    const int valid = whole ? 16 : left < 0 ? 0 : left < 16 ? left : 16;
    TENON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      copy_async_16(rows + (to + i * kRowsApart * T::kStep), from + further[i],
                    static_cast<uint32_t>(valid));
    }
    from = from + T::kStep;
  }
  TENON_DEVICE void skip(int steps) { from = from + steps * T::kStep; }
};

// What a warp multiplies at once: 16 of K, of its rows and of its columns.
template <typename T>
struct Fragments {
  uint32_t a[T::kRowTiles][4];
  uint32_t b[T::kColumnTiles / 2][4];
};

// Where a lane finds its rows and columns in a stage.
template <typename T>
struct WarpPart {
  int row, column;  // of the warp, in the tile
  int a, b;         // elements from the beginning of a stage
  int a_chunk, b_chunk;

  TENON_DEVICE explicit WarpPart(int thread) {
    const int warp = thread / 32;
    const int lane = thread % 32;
    row = warp / T::kColumnWarps * T::kWarpRows;
    column = warp % T::kColumnWarps * T::kWarpColumns;
    a = (row + lane % 16) * T::kStep;
    b = (T::kRows + column + lane / 16 * 8 + lane % 8) * T::kStep;
    a_chunk = turned<T>(lane % 8, lane / 16);
    b_chunk = turned<T>(lane % 8, lane / 8 % 2);
  }
  // Number `k` of a step's 16s.
  TENON_DEVICE void load(Fragments<T>& to, Shared<BFloat16> stage, int k) const {
    const Shared<BFloat16> rows = stage + (a + (a_chunk ^ 2 * k) * 8);
    const Shared<BFloat16> columns = stage + (b + (b_chunk ^ 2 * k) * 8);
    TENON_UNROLL
    for (int n = 0; n < T::kColumnTiles / 2; ++n) {
      load_matrix_x4(to.b[n], columns + n * 16 * T::kStep);
    }
    TENON_UNROLL
    for (int m = 0; m < T::kRowTiles; ++m) load_matrix_x4(to.a[m], rows + m * 16 * T::kStep);
  }
};

template <typename T>
using WarpSums = float[T::kRowTiles][T::kColumnTiles][4];

template <typename T>
TENON_DEVICE void multiply_fragments(WarpSums<T>& sums, const Fragments<T>& of) {
  TENON_UNROLL
  for (int m = 0; m < T::kRowTiles; ++m) {
    TENON_UNROLL
    for (int n = 0; n < T::kColumnTiles; ++n) {
      const int column = m % 2 == 0 ? n : T::kColumnTiles - 1 - n;  // what was used last, again
      const uint32_t(&pair)[4] = of.b[column / 2];
      mma_bf16(sums[m][column], of.a[m], {pair[column % 2 * 2], pair[column % 2 * 2 + 1]});
    }
  }
}

template <typename T, typename Function>
TENON_DEVICE void each_sum(WarpSums<T>& sums, const Function& function) {
  TENON_UNROLL
  for (int m = 0; m < T::kRowTiles; ++m) {
    TENON_UNROLL
    for (int n = 0; n < T::kColumnTiles; ++n) function(sums[m][n], m, n);
  }
}

// Totals of pieces. add(sums, first, last): sums become the total behind this piece.
template <typename T, bool in_shared = T::kTotalsInShared>
struct Totals {
  WarpSums<T> kept = {};
  TENON_DEVICE explicit Totals(SharedArena&) {}
  TENON_DEVICE void add(WarpSums<T>& sums, bool first, bool) {
    each_sum<T>(sums, [&](float(&sum)[4], int m, int n) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        kept[m][n][i] = first ? sum[i] : kept[m][n][i] + sum[i];
        sum[i] = kept[m][n][i];
      }
    });
  }
};
// A thread's own ones, four side by side.
template <typename T>
struct Totals<T, true> {
  Shared<float> kept;
  TENON_DEVICE explicit Totals(SharedArena& arena)
      : kept(arena.take<float>(T::kRows * T::kColumns) + static_cast<int>(threadIdx.x) * 4) {}
  TENON_DEVICE void add(WarpSums<T>& sums, bool first, bool last) {
    each_sum<T>(sums, [&](float(&sum)[4], int m, int n) {
      const Shared<float> at = kept + (m * T::kColumnTiles + n) * T::kThreads * 4;
      if (!first) {
        const Pack<float, 4> total = load_pack<4>(at);
        TENON_UNROLL
        for (int i = 0; i < 4; ++i) sum[i] = total[i] + sum[i];
      }
      if (!last) store_pack(at, Pack<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
    });
  }
};

// Which tile of y a block makes. Blocks that run at the same time lie close together, so that they
// find each other's rows and columns in the L2 cache.
template <typename T>
struct TilePlace {
  int64_t row;
  int column;
  TENON_DEVICE TilePlace(uint32_t rows, int n_out) {
    const uint32_t down = (rows + T::kRows - 1) / T::kRows;
    const uint32_t across = static_cast<uint32_t>((n_out + T::kColumns - 1) / T::kColumns);
    const uint32_t first = blockIdx.x / (T::kTogether * across) * T::kTogether;
    const uint32_t within = blockIdx.x % (T::kTogether * across);
    const uint32_t height = down - first < T::kTogether ? down - first : T::kTogether;
    row = static_cast<int64_t>(first + within % height) * T::kRows;
    column = static_cast<int>(within / height) * T::kColumns;
  }
};

// Two neighbours of y at once, where addresses allow it.
TENON_DEVICE void put_pair(const Factors<BFloat16>& f, int64_t row, int column, float left,
                           float right, bool pairs) {
  if (!pairs || column + 1 >= f.n_out) {
    put_product(f, row, column, left);
    put_product(f, row, column + 1, right);
    return;
  }
  if (f.bias) {
    left += f.bias[column];
    right += f.bias[column + 1];
  }
  const Global<float> at = f.y + (row * f.y_stride + column);
  if (f.add) {
    const Pack<float, 2> old = load_pack<2>(at);
    left = fmaf(f.factor, left, old[0]);
    right = fmaf(f.factor, right, old[1]);
  }
  store_pack(at, Pack<float, 2>{{left, right}});
}

// What a warp made, from that row and column on.
template <typename T>
TENON_DEVICE void put_sums(const Factors<BFloat16>& f, WarpSums<T>& sums, int64_t first_row,
                           int first_column, bool pairs) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  each_sum<T>(sums, [&](float(&sum)[4], int m, int n) {
    const int column = first_column + n * 8 + lane % 4 * 2;
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int64_t row = first_row + m * 16 + lane / 4 + i * 8;
      if (row < f.rows) put_pair(f, row, column, sum[i * 2], sum[i * 2 + 1], pairs);
    }
  });
}

template <typename T>
TENON_DEVICE void multiply_many_tile(const Factors<BFloat16>& f, bool pairs) {
  constexpr int kSixteens = T::kStep / 16;
  constexpr int kPieceSteps = kPieceElements / T::kStep;
  static_assert(kSixteens % 2 == 0);
  SharedArena arena;
  const Shared<BFloat16> stages = arena.take<BFloat16>(T::kStages * T::kStage);
  Totals<T> totals(arena);
  const TilePlace<T> place(f.rows, f.n_out);
  const int thread = static_cast<int>(threadIdx.x);
  Chunks<T, T::kRows> x_chunks(thread, f.x, place.row, f.rows, f.k_in * 2, f.x_stride);
  Chunks<T, T::kColumns> w_chunks(thread, f.w, place.column, f.n_out, f.w_stride * 2, f.w_stride);
  // `at`: where a stage begins. Behind the last step it is filled with zeros.
  const auto fill = [&]<bool whole>(std::bool_constant<whole>, int step, int at) {
    x_chunks.template copy<whole>(stages + at, step);
    w_chunks.template copy<whole>(stages + (at + T::kRows * T::kStep), step);
    copy_async_commit();
  };
  for (int stage = 0; stage < T::kStages; ++stage) {
    fill(std::false_type(), stage, stage * T::kStage);
  }
  copy_async_wait<T::kStages - 1>();
  __syncthreads();
  const WarpPart<T> part(thread);
  Fragments<T> fragments[2];
  part.load(fragments[0], stages, 0);
  int at = 0;
  WarpSums<T> sums = {};
  const auto multiply_step = [&]<bool whole>(std::bool_constant<whole> is_whole, int step) {
    TENON_UNROLL
    for (int k = 0; k < kSixteens; ++k) {
      if (k + 1 < kSixteens) {
        part.load(fragments[(k + 1) % 2], stages + at, k + 1);
      } else {
        copy_async_wait<T::kStages - 2>();
        __syncthreads();  // the next stage is there, and this one was read
        const int used = at;
        at = at + T::kStage < T::kStages * T::kStage ? at + T::kStage : 0;
        part.load(fragments[0], stages + at, 0);
        fill(is_whole, step + T::kStages, used);
      }
      multiply_fragments<T>(sums, fragments[k % 2]);
    }
  };
  const int steps = (f.k_in + T::kStep - 1) / T::kStep;
  const int whole_steps = f.k_in / T::kStep - T::kStages;  // that copy whole ones
  for (int step = 0; step < steps;) {
    const int first = step;
    const int end = steps - step < kPieceSteps ? steps : step + kPieceSteps;
    const int whole_end = end < whole_steps ? end : whole_steps;
    for (; step < whole_end; ++step) multiply_step(std::true_type(), step);
    for (; step < end; ++step) multiply_step(std::false_type(), step);
    totals.add(sums, first == 0, end == steps);
    if (end == steps) break;
    each_sum<T>(sums, [](float(&sum)[4], int, int) {
      for (float& x : sum) x = 0.0f;
    });
  }
  copy_async_wait<0>();

  put_sums<T>(f, sums, place.row + part.row, place.column + part.column, pairs);
}

// Grid: tiles, heads. `pairs`: y can be written in pairs.
template <typename T>
__global__ void __launch_bounds__(T::kThreads, 1)
    multiply_many(Factors<BFloat16> f, HeadStrides heads, bool pairs) {
  let_next_start();
  wait_for_earlier();
  choose_head(f, heads);
  multiply_many_tile<T>(f, pairs);
}

}  // namespace tenon::cuda
