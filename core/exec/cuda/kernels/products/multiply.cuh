// Products of a step's rows with weight matrices. A block makes a tile of rows × 64 columns; warps
// share it by columns where rows are few, by rows where they are many. Either way an element of y
// is the same sequence of mma and additions over K, so its bits depend on its own row and column
// alone.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

inline constexpr int kMultiplyThreads = 128;
inline constexpr int kColumns = 64;           // of a block
inline constexpr int kStep = 32;              // of K, for each stage
inline constexpr int kStages = 3;             // two on their way while one is multiplied
inline constexpr int kRowStride = kStep + 8;  // elements: rows of 80 bytes meet no bank twice

// Every product of bf16 sums pieces of so many elements of K, each in a chain of mma from zero on,
// and adds up the pieces in order in f32. So several warps or blocks may share an element's K.
inline constexpr int kPieceElements = 1024;

// Of a product with experts: which of the rows an expert has (ExpertRows).
struct ExpertFactors {
  Global<const uint32_t> experts, lists, counts;
  uint32_t room = 0;
  uint32_t each = 1;
};

// A call's numbers with watched pointers in place of plain ones.
template <typename T>
struct Factors {
  Global<const T> x;
  Global<const T> w;
  Global<const float> bias;
  Global<float> y;
  uint32_t rows;
  int n_out, k_in, x_stride, w_stride, y_stride;
  bool add;
  float factor;
  ExpertFactors by;  // of products with experts alone
};

// A row below 0 is none.
template <typename T>
TENON_DEVICE void put_product(const Factors<T>& f, int64_t row, int column, float sum) {
  if (row < 0 || column >= f.n_out) return;
  if (f.bias) sum += f.bias[column];
  const int64_t at = row * f.y_stride + column;
  f.y[at] = f.add ? fmaf(f.factor, sum, f.y[at]) : sum;
}

// A block's share of rows and columns, and its warp's part of them.
template <int tile_rows>
struct Tile {
  static constexpr int kRowWarps = tile_rows / 16;
  static constexpr int kColumnWarps = kMultiplyThreads / 32 / kRowWarps;
  static constexpr int kTiles = kColumns / kColumnWarps / 8;  // of 8 columns, for a warp
  int64_t row;                                                // of the block
  int column;
  int lane, warp_row, warp_column;  // the last two within the block

  TENON_DEVICE Tile()
      : row(static_cast<int64_t>(blockIdx.y) * tile_rows),
        column(static_cast<int>(blockIdx.x) * kColumns),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp_row(static_cast<int>(threadIdx.x) / 32 / kColumnWarps * 16),
        warp_column(static_cast<int>(threadIdx.x) / 32 % kColumnWarps * (kTiles * 8)) {}
};

// Which rows of x a tile's rows are, and which of y; -1: none.
struct StraightRows {
  int64_t first, count;
  TENON_DEVICE int64_t from(int row) const { return first + row < count ? first + row : -1; }
  TENON_DEVICE int64_t to(int row) const { return from(row); }
};
// … of one expert: rows of y are places, those of x the rows that chose.
struct ChosenRows {
  static constexpr uint32_t kNone = 0xffffffffu;
  Shared<uint32_t> places;  // [tile_rows]
  uint32_t each;
  TENON_DEVICE int64_t from(int row) const {
    const uint32_t place = places[row];
    return place == kNone ? -1 : static_cast<int64_t>(place / each);
  }
  TENON_DEVICE int64_t to(int row) const {
    const uint32_t place = places[row];
    return place == kNone ? -1 : static_cast<int64_t>(place);
  }
};

TENON_DEVICE bool expert_is_done(const ExpertFactors& by, int64_t first_row) {
  return first_row >= static_cast<int64_t>(uint32_t{by.counts[blockIdx.z]});
}
// Brings a tile's places to shared memory.
template <int tile_rows>
TENON_DEVICE ChosenRows chosen_rows(SharedArena& arena, const ExpertFactors& by,
                                    int64_t first_row) {
  const ChosenRows rows{arena.take<uint32_t>(tile_rows), by.each};
  const int64_t count = uint32_t{by.counts[blockIdx.z]};
  const int64_t list = static_cast<int64_t>(blockIdx.z) * by.room;
  const int own = static_cast<int>(threadIdx.x);
  if (own < tile_rows) {
    rows.places[own] =
        first_row + own < count ? uint32_t{by.lists[list + first_row + own]} : ChosenRows::kNone;
  }
  __syncthreads();
  return rows;
}
// Moves to the matrix and the bias of expert `index`.
template <typename T>
TENON_DEVICE void choose_matrix(Factors<T>& f, int64_t index) {
  f.w = f.w + index * f.n_out * f.w_stride;
  if (f.bias) f.bias = f.bias + index * f.n_out;
}

// The pieces of 16 bytes that a thread copies of each step of a matrix, for a tile of its rows. A
// piece stays in its row and moves on along K, so that a step costs additions and no more; what a
// row does not have becomes zeros.
template <typename T, int tile_rows, int shared_stride, int row_bytes = kStep * sizeof(T)>
struct Pieces {
  static constexpr int kElements = 16 / sizeof(T);
  static constexpr int kRowBytes = row_bytes;  // of a step
  static constexpr int kRowPieces = kRowBytes / 16;
  static constexpr int kRowsApart = kMultiplyThreads / kRowPieces;
  static constexpr int kCount = tile_rows > kRowsApart ? tile_rows / kRowsApart : 1;
  Global<const T> from[kCount];
  int left[kCount];  // bytes of the row, 0 or less at its end
  int to;            // elements from the beginning of a stage

  // Of a matrix with rows of `length` bytes, `stride` elements apart.
  template <typename Rows>
  TENON_DEVICE Pieces(Global<const T> matrix, const Rows& rows, int length, int stride) {
    const int row = static_cast<int>(threadIdx.x) / kRowPieces;
    const int piece = static_cast<int>(threadIdx.x) % kRowPieces * kElements;
    to = row * shared_stride + piece;
    TENON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int64_t own = row < tile_rows ? rows.from(row + i * kRowsApart) : -1;
      from[i] = own < 0 ? matrix : matrix + (own * stride + piece);
      left[i] = own < 0 ? 0 : length - piece * static_cast<int>(sizeof(T));
    }
  }
  TENON_DEVICE void copy(Shared<T> stage) {
    if (tile_rows < kRowsApart && static_cast<int>(threadIdx.x) >= tile_rows * kRowPieces) return;
    TENON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int valid = left[i] < 0 ? 0 : left[i] < 16 ? left[i] : 16;
      copy_async_16(stage + (to + i * kRowsApart * shared_stride), from[i],
                    static_cast<uint32_t>(valid));
      from[i] = from[i] + kRowBytes / static_cast<int>(sizeof(T));
      left[i] -= kRowBytes;
    }
  }
};

// Behind a piece of K: its sums enter the totals.
template <int tiles>
TENON_DEVICE void add_piece(float (&totals)[tiles][4], float (&sums)[tiles][4]) {
  TENON_UNROLL
  for (int n = 0; n < tiles; ++n) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      totals[n][i] += sums[n][i];
      sums[n][i] = 0.0f;
    }
  }
}

// The stage behind `stage`, in a circle.
TENON_DEVICE int next_stage(int stage) {
  return stage + 1 < kStages ? stage + 1 : 0;
}

// One step of 16 along K: A from rows of x, B from 16 · n columns of W.
TENON_DEVICE void load_a(uint32_t (&a)[4], Shared<BFloat16> rows, int lane, int k) {
  load_matrix_x4(a, rows + (lane % 16 * kRowStride + k + lane / 16 * 8));
}
TENON_DEVICE void load_b_pair(uint32_t (&b)[4], Shared<BFloat16> columns, int lane, int k) {
  load_matrix_x4(b, columns + ((lane / 16 * 8 + lane % 8) * kRowStride + k + lane / 8 % 2 * 8));
}

template <int tile_rows, typename Rows>
TENON_DEVICE void multiply_tile(const Factors<BFloat16>& f, const Rows& rows_of,
                                SharedArena& arena) {
  using T = Tile<tile_rows>;
  Shared<BFloat16> x = arena.take<BFloat16>(kStages * tile_rows * kRowStride);
  Shared<BFloat16> w = arena.take<BFloat16>(kStages * kColumns * kRowStride);
  const T tile;
  const int steps = (f.k_in + kStep - 1) / kStep;
  const StraightRows columns_of{tile.column, f.n_out};
  Pieces<BFloat16, tile_rows, kRowStride> x_pieces(f.x, rows_of, f.k_in * 2, f.x_stride);
  Pieces<BFloat16, kColumns, kRowStride> w_pieces(f.w, columns_of, f.w_stride * 2, f.w_stride);
  const auto fill = [&](int step, int stage) {
    if (step < steps) {
      x_pieces.copy(x + stage * tile_rows * kRowStride);
      w_pieces.copy(w + stage * kColumns * kRowStride);
    }
    copy_async_commit();
  };
  float totals[T::kTiles][4] = {};
  float sums[T::kTiles][4] = {};
  for (int step = 0; step < kStages - 1; ++step) fill(step, step);
  int stage = 0;
  int filled = kStages - 1;
  const auto multiply_step = [&](int step) {
    copy_async_wait<kStages - 2>();
    __syncthreads();  // this stage is there, and the one that is filled next was used
    fill(step + kStages - 1, filled);
    const Shared<BFloat16> rows = x + (stage * tile_rows + tile.warp_row) * kRowStride;
    const Shared<BFloat16> columns = w + (stage * kColumns + tile.warp_column) * kRowStride;
    TENON_UNROLL
    for (int k = 0; k < kStep; k += 16) {
      uint32_t a[4];
      load_a(a, rows, tile.lane, k);
      TENON_UNROLL
      for (int n = 0; n < T::kTiles; n += 2) {
        uint32_t pair[4];
        load_b_pair(pair, columns + n * 8 * kRowStride, tile.lane, k);
        mma_bf16(sums[n], a, {pair[0], pair[1]});
        mma_bf16(sums[n + 1], a, {pair[2], pair[3]});
      }
    }
    stage = next_stage(stage);
    filled = next_stage(filled);
  };
  constexpr int kPieceSteps = kPieceElements / kStep;
  for (int step = 0; step < steps;) {
    const int end = steps - step < kPieceSteps ? steps : step + kPieceSteps;
    for (; step < end; ++step) multiply_step(step);
    add_piece(totals, sums);
  }
  TENON_UNROLL
  for (int n = 0; n < T::kTiles; ++n) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      put_product(f, rows_of.to(tile.warp_row + tile.lane / 4 + i / 2 * 8),
                  tile.column + tile.warp_column + n * 8 + tile.lane % 4 * 2 + i % 2, totals[n][i]);
    }
  }
}

// Grid: columns, rows of an expert, experts.
template <int tile_rows>
__global__ void __launch_bounds__(kMultiplyThreads, 4) multiply_experts_bf16(Factors<BFloat16> f) {
  let_next_start();
  wait_for_earlier();
  const int64_t first = static_cast<int64_t>(blockIdx.y) * tile_rows;
  if (expert_is_done(f.by, first)) return;
  SharedArena arena;
  const ChosenRows rows = chosen_rows<tile_rows>(arena, f.by, first);
  choose_matrix(f, blockIdx.z);
  multiply_tile<tile_rows>(f, rows, arena);
}

// Grid: columns, rows, heads.
template <typename T>
TENON_DEVICE void choose_head(Factors<T>& f, const HeadStrides& heads) {
  const int64_t head = blockIdx.z;
  f.x = f.x + head * heads.x;
  f.w = f.w + head * heads.w;
  f.y = f.y + head * heads.y;
}
template <int tile_rows>
__global__ void __launch_bounds__(kMultiplyThreads, 4)
    multiply_heads_bf16(Factors<BFloat16> f, HeadStrides heads) {
  let_next_start();
  wait_for_earlier();
  SharedArena arena;
  choose_head(f, heads);
  const int64_t first = static_cast<int64_t>(blockIdx.y) * tile_rows;
  multiply_tile<tile_rows>(f, StraightRows{first, static_cast<int64_t>(f.rows)}, arena);
}

}  // namespace tenon::cuda
