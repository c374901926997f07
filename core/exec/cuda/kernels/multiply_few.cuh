// Products of few rows. They take as long as memory takes to bring W, once: so a warp has 16
// columns and one piece of K, which gives even a narrow matrix enough warps, and each warp has its
// own stages in shared memory and waits for no other until its sums are done. W is asked for before
// the kernels in front are done, x behind them.
#pragma once

#include "core/exec/cuda/kernels/few_weights.cuh"

namespace tenon::cuda {

inline constexpr int kFewWarps = 8;  // of a block, at most

// What a warp copies for a step: its columns of W, and all rows of x.
template <typename Shape>
struct FewCopies {
  const QuantFactors& q;
  const FewStages<Shape>& stages;
  int column, lane;  // the first column

  // Bytes that are there of the 16 from `at` on, of a row that has `bytes`.
  static TENON_DEVICE uint32_t valid(int at, int bytes) {
    const int left = bytes - at;
    return left < 0 ? 0 : left < 16 ? static_cast<uint32_t>(left) : 16;
  }
  TENON_DEVICE void copy_w(int k, int stage) const {
    constexpr int kApart = 32 / Shape::kWPieces;  // columns at once
    const int piece = lane % Shape::kWPieces * 16;
    const int row = lane / Shape::kWPieces;
    const int own = column + row;
    const int at = k * Shape::kBits / 8 + piece;
    const uint32_t bytes = valid(at, q.f.w_stride);
    const Shared<uint8_t> to = stages.w_of(stage) + (row * Shape::kWStride + piece);
    const Global<const uint8_t> from = q.w + (static_cast<int64_t>(own) * q.f.w_stride + at);
    TENON_UNROLL
    for (int i = 0; i < Shape::kColumns / kApart; ++i) {
      const bool there = bytes > 0 && own + i * kApart < q.f.n_out;
      copy_async_16(to + i * kApart * Shape::kWStride,
                    there ? from + static_cast<int64_t>(i) * kApart * q.f.w_stride : q.w,
                    there ? bytes : 0);
    }
  }
  // All warps of a multiprocessor read the same: were it not kept there, they would keep the few
  // parts of L2 that have it busier than memory keeps the others.
  TENON_DEVICE void copy_x(int k, int stage) const {
    constexpr int kPieces = Shape::kStep / 8;  // 16 or 32
    const int piece = lane % kPieces * 8;
    const uint32_t bytes = valid((k + piece) * 2, q.f.k_in * 2);
    const Shared<BFloat16> to = stages.x_of(stage);
    const int rows = static_cast<int>(q.f.rows);
    for (int row = lane / kPieces; row < rows; row += 32 / kPieces) {
      const int64_t at = static_cast<int64_t>(row) * q.f.x_stride + k + piece;
      copy_async_16_by_l1(to + (row * Shape::kXStride + piece), bytes > 0 ? q.f.x + at : q.f.x,
                          bytes);
    }
  }
};

// A from rows of x: a lane's place in a stage. Matrices of ldmatrix are four along K where there
// are 8 rows, and two by two where there are 16.
template <typename Shape>
struct FewRows {
  Shared<BFloat16> at;
  int moves;  // 0 where the lane's row is not there

  TENON_DEVICE FewRows(const FewStages<Shape>& stages, int stage, int rows, int lane)
      : at(stages.zeros), moves(0) {
    const int row = Shape::kRows == 8 ? lane % 8 : lane % 16;
    const int k = Shape::kRows == 8 ? lane / 8 * 8 : lane / 16 * 8;
    if (row >= rows) return;
    at = stages.x_of(stage) + (row * Shape::kXStride + k);
    moves = 1;
  }
  // For the two steps of 16 from k on.
  TENON_DEVICE void load(uint32_t (&a)[2][4], int k) const {
    if constexpr (Shape::kRows == 8) {
      uint32_t four[4];
      load_matrix_x4(four, at + moves * k);
      TENON_UNROLL
      for (int i = 0; i < 2; ++i) {
        a[i][0] = four[2 * i];
        a[i][2] = four[2 * i + 1];
        a[i][1] = a[i][3] = 0;
      }
    } else {
      load_matrix_x4(a[0], at + moves * k);
      load_matrix_x4(a[1], at + moves * (k + 16));
    }
  }
};

// Sums of the pieces of K, [pieces, groups, rows, columns], of a block's columns.
template <typename Shape>
struct FewParts {
  Shared<float> all;
  int pieces, groups, rows;

  TENON_DEVICE void keep(int piece, int group, const float (&sums)[Shape::kTiles][4],
                         int lane) const {
    const Shared<float> part = all + (piece * groups + group) * rows * Shape::kColumns;
    TENON_UNROLL
    for (int n = 0; n < Shape::kTiles; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8;
        if (row < rows) part[row * Shape::kColumns + n * 8 + lane % 4 * 2 + i % 2] = sums[n][i];
      }
    }
  }
  // Pieces are added up in their order.
  TENON_DEVICE void put(const Factors<BFloat16>& f) const {
    const int width = groups * Shape::kColumns;
    const int threads = static_cast<int>(blockDim.x);
    for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += threads) {
      const int row = i / width;
      const int column = i % width;
      const int first =
          (column / Shape::kColumns * rows + row) * Shape::kColumns + column % Shape::kColumns;
      float total = all[first];
      for (int piece = 1; piece < pieces; ++piece) {
        total += float{all[first + piece * rows * width]};
      }
      put_product(f, row, static_cast<int>(blockIdx.x) * width + column, total);
    }
  }
};

// Grid: `groups` · kColumns columns. A block has blockDim.x / 32 / groups warps for the pieces of
// K, for each of its groups of columns.
template <typename Shape>
__global__ void __launch_bounds__(kFewWarps * 32) multiply_few(QuantFactors q, int groups) {
  const Factors<BFloat16>& f = q.f;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int rows = static_cast<int>(f.rows);
  const int pieces = (f.k_in + kPieceElements - 1) / kPieceElements;
  const int group = warp % groups;
  const int column = (static_cast<int>(blockIdx.x) * groups + group) * Shape::kColumns;
  SharedArena arena;
  FewStages<Shape> stages(arena, warp, warps, rows);
  const FewParts<Shape> parts = {arena.take<float>(pieces * groups * rows * Shape::kColumns),
                                 pieces, groups, rows};
  FewWeights<Shape> weights(q, arena, column, lane, warp, warps, stages.w_of(0));
  const FewCopies<Shape> copies = {q, stages, column, lane};
  let_next_start();
  if (threadIdx.x < 8) stages.zeros[static_cast<int>(threadIdx.x)] = BFloat16{0};
  __syncthreads();  // zeros are there
  for (int piece = warp / groups; piece < pieces; piece += warps / groups) {
    const int begin = piece * kPieceElements;
    const int left = f.k_in - begin;
    const int length = left < kPieceElements ? left : kPieceElements;
    const int steps = (length + Shape::kStep - 1) / Shape::kStep;
    for (int step = 0; step < Shape::kStages - 1 && step < steps; ++step) {
      copies.copy_w(begin + step * Shape::kStep, step);
    }
    weights.begin_piece(begin, length);
    wait_for_earlier();
    for (int step = 0; step < Shape::kStages - 1; ++step) {
      if (step < steps) copies.copy_x(begin + step * Shape::kStep, step);
      copy_async_commit();
    }
    int stage = 0;
    int filled = Shape::kStages - 1;
    for (int step = 0; step < steps; ++step) {
      copy_async_wait<Shape::kStages - 2>();
      __syncwarp();  // this stage is there, and the one that is filled next was used
      if (const int next = step + Shape::kStages - 1; next < steps) {
        copies.copy_w(begin + next * Shape::kStep, filled);
        copies.copy_x(begin + next * Shape::kStep, filled);
      }
      copy_async_commit();
      const FewRows<Shape> x(stages, stage, rows, lane);
      weights.enter(stages.w_of(stage));
      TENON_UNROLL
      for (int k = 0; k < Shape::kStep; k += 32) {
        uint32_t a[2][4];
        x.load(a, k);
        weights.multiply(a, k);
      }
      stage = Shape::next(stage);
      filled = Shape::next(filled);
    }
    weights.end_piece();
    parts.keep(piece, group, weights.sums, lane);
    __syncwarp();  // all stages were used
  }
  __syncthreads();
  parts.put(f);
}

}  // namespace tenon::cuda
