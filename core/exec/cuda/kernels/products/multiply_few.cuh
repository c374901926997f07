// Products of few rows in bf16. They take as long as memory takes to bring W, once: so a warp has
// 16 columns and one piece of K, which gives even a narrow matrix enough warps, and each warp has
// its own stages in shared memory and waits for no other until its sums are done. W is asked for
// before the kernels in front are done, x behind them.
#pragma once

#include "core/exec/cuda/kernels/products/few_columns.cuh"

namespace tenon::cuda {

inline constexpr int kFewProductWarps = 8;  // of a block, at most

// How much of K a stage has, and how many stages there are: all but one are on their way.
template <int step_elements, int stage_count>
struct FewShape {
  static constexpr int kTiles = kFewColumns / 8;
  static constexpr int kStep = step_elements;
  static constexpr int kStages = stage_count;
  static constexpr int kRun = 64;            // of K, multiplied at once
  static constexpr int kStride = kStep + 8;  // elements: rows and columns meet no bank twice
  static constexpr int kWStage = kFewColumns * kStride;
  static constexpr int kRowPieces = kStep / 8;  // of 16 bytes

  static TENON_DEVICE int next(int stage) { return stage + 1 < kStages ? stage + 1 : 0; }
  // Of shared memory, for a warp.
  static constexpr int bytes(int rows) { return kStages * (rows + kFewColumns) * kStride * 2; }
};

// A warp's. Of x there is room for as many rows as the step has.
template <typename Shape>
struct FewStages {
  Shared<BFloat16> zeros;  // [8]: rows that are not there
  Shared<BFloat16> x, w;
  int x_elements;

  TENON_DEVICE FewStages(SharedArena& arena, int warp, int warps, int rows)
      : zeros(arena.take<BFloat16>(8)),
        x(arena.take<BFloat16>(warps * Shape::kStages * rows * Shape::kStride)),
        w(arena.take<BFloat16>(warps * Shape::kStages * Shape::kWStage)),
        x_elements(rows * Shape::kStride) {
    x = x + warp * Shape::kStages * x_elements;
    w = w + warp * Shape::kStages * Shape::kWStage;
  }
  TENON_DEVICE Shared<BFloat16> x_of(int stage) const { return x + stage * x_elements; }
  TENON_DEVICE Shared<BFloat16> w_of(int stage) const { return w + stage * Shape::kWStage; }
};

// What a warp copies: its columns of W, and all rows of x.
template <typename Shape>
struct FewCopies {
  const Factors<BFloat16>& f;
  const FewStages<Shape>& stages;
  Global<const BFloat16> w;  // of a lane: its piece of its first column
  int column;                // that
  int w_at, w_piece;         // in a stage; in a row
  int lane;
  bool whole;  // all of the warp's columns are there

  TENON_DEVICE FewCopies(const Factors<BFloat16>& factors, const FewStages<Shape>& of, int first,
                         int own_lane)
      : f(factors), stages(of), lane(own_lane) {
    const int row = lane / Shape::kRowPieces;
    w_piece = lane % Shape::kRowPieces * 8;
    w_at = row * Shape::kStride + w_piece;
    column = first + row;
    whole = first + kFewColumns <= f.n_out;
    w = f.w + (int64_t{column_there(f, column)} * f.w_stride + w_piece);
  }
  // A row of W has whole pieces of 16 bytes.
  TENON_DEVICE void copy_w(int k, int stage) const {
    const Shared<BFloat16> to = stages.w_of(stage) + w_at;
    if (k + w_piece >= f.w_stride) {
      TENON_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        store_pack(to + i * kApart * Shape::kStride, Pack<BFloat16, 8>{});
      }
    } else if (whole) {
      const int64_t apart = int64_t{kApart} * f.w_stride;
      TENON_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        copy_async_16_once(to + i * kApart * Shape::kStride, w + (i * apart + k));
      }
    } else {
      for (int i = 0; i < kCopies; ++i) {
        const int64_t own = column_there(f, column + i * kApart);
        copy_async_16_once(to + i * kApart * Shape::kStride,
                           f.w + (own * f.w_stride + w_piece + k));
      }
    }
  }
  // All warps of a multiprocessor read the same: were it not kept there, they would keep the few
  // parts of L2 that have it busier than memory keeps the others.
  TENON_DEVICE void copy_x(int k, Shared<BFloat16> to) const {
    const int rows = static_cast<int>(f.rows);
    const int own = lane * 8;
    if (own >= Shape::kStep) return;
    for (int row = 0; row < rows; ++row) {
      const Global<const BFloat16> from = f.x + (static_cast<int64_t>(row) * f.x_stride + k + own);
      const int left = (f.k_in - k - own) * 2;
      const uint32_t bytes = left < 0 ? 0 : left < 16 ? static_cast<uint32_t>(left) : 16;
      copy_async_16_by_l1(to + (row * Shape::kStride + own), bytes > 0 ? from : f.x, bytes);
    }
  }

 private:
  static constexpr int kApart = 32 / Shape::kRowPieces;  // columns that a warp copies at once
  static constexpr int kCopies = kFewColumns / kApart;
};

// A from rows of x: a lane's place in a stage.
template <typename Shape>
struct FewRows {
  Shared<BFloat16> at;
  int moves;  // 0 where the lane's row is not there

  TENON_DEVICE FewRows(const FewStages<Shape>& stages, int stage, int rows, int lane)
      : at(stages.zeros), moves(0) {
    if (lane % 16 >= rows) return;
    at = stages.x_of(stage) + (lane % 16 * Shape::kStride + lane / 16 * 8);
    moves = 1;
  }
  TENON_DEVICE void load(uint32_t (&a)[4], int k) const { load_matrix_x4(a, at + moves * k); }
};

// sums += a stage of x · a stage of W.
template <typename Shape>
TENON_DEVICE void multiply_stage(float (&sums)[Shape::kTiles][4], const FewRows<Shape>& x,
                                 Shared<BFloat16> w, int lane) {
  const Shared<BFloat16> own = w + ((lane / 16 * 8 + lane % 8) * Shape::kStride + lane / 8 % 2 * 8);
  TENON_UNROLL
  for (int k = 0; k < Shape::kStep; k += Shape::kRun) {
    uint32_t a[Shape::kRun / 16][4];
    TENON_UNROLL
    for (int i = 0; i < Shape::kRun / 16; ++i) x.load(a[i], k + i * 16);
    TENON_UNROLL
    for (int i = 0; i < Shape::kRun / 16; ++i) {
      TENON_UNROLL
      for (int n = 0; n < Shape::kTiles; n += 2) {
        uint32_t pair[4];
        load_matrix_x4(pair, own + (n * 8 * Shape::kStride + k + i * 16));
        mma_bf16(sums[n], a[i], {pair[0], pair[1]});
        mma_bf16(sums[n + 1], a[i], {pair[2], pair[3]});
      }
    }
  }
}

// Grid: `groups` · kFewColumns columns. A block has blockDim.x / 32 / groups warps for the pieces
// of K, for each of its groups of columns.
template <typename Shape>
__global__ void __launch_bounds__(kFewProductWarps * 32, 3)
    multiply_few(Factors<BFloat16> f, int groups) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int rows = static_cast<int>(f.rows);
  const int pieces = (f.k_in + kPieceElements - 1) / kPieceElements;
  const int group = warp % groups;
  const int column = (static_cast<int>(blockIdx.x) * groups + group) * kFewColumns;
  SharedArena arena;
  FewStages<Shape> stages(arena, warp, warps, rows);
  const FewParts parts = {arena.take<float>(pieces * groups * rows * kFewColumns), groups, rows};
  const FewCopies<Shape> copies(f, stages, column, lane);
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
    wait_for_earlier();
    for (int step = 0; step < Shape::kStages - 1; ++step) {
      if (step < steps) copies.copy_x(begin + step * Shape::kStep, stages.x_of(step));
      copy_async_commit();
    }
    float sums[Shape::kTiles][4] = {};
    int stage = 0;
    int filled = Shape::kStages - 1;
    for (int step = 0; step < steps; ++step) {
      copy_async_wait<Shape::kStages - 2>();
      __syncwarp();  // this stage is there, and the one that is filled next was used
      if (const int next = step + Shape::kStages - 1; next < steps) {
        const int k = begin + next * Shape::kStep;
        copies.copy_w(k, filled);
        copies.copy_x(k, stages.x_of(filled));
      }
      copy_async_commit();
      multiply_stage(sums, FewRows<Shape>(stages, stage, rows, lane), stages.w_of(stage), lane);
      stage = Shape::next(stage);
      filled = Shape::next(filled);
    }
    TENON_UNROLL
    for (int i = 0; i < Shape::kTiles * 4; ++i) {
      parts.keep(piece, group, lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2,
                 sums[i / 4][i % 4]);
    }
    __syncwarp();  // all stages were used
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < parts.elements(); i += warps * 32) {
    parts.put(f, i, parts.total(i, pieces, -0.0f));
  }
}

}  // namespace tenon::cuda
