// Products of few rows. They take as long as memory takes to bring W, once: so a warp has 16
// columns and one piece of K, which gives even a narrow matrix enough warps, and each warp has its
// own stages in shared memory and waits for no other until its sums are done. W is asked for before
// the kernels in front are done, x behind them.
#pragma once

#include "core/exec/cuda/kernels/few_weights.cuh"

namespace tenon::cuda {

inline constexpr int kFewProductWarps = 8;  // of a block, at most

// What a warp copies: its columns of W, and all rows of x.
template <typename Shape>
struct FewCopies {
  const QuantFactors& q;
  const FewStages<Shape>& stages;
  Global<const uint8_t> w;  // of a lane: its piece of its first column
  int column;               // that
  int w_at, w_piece;        // in a stage; in a row
  int lane;
  bool whole;  // all of the warp's columns are there

  TENON_DEVICE FewCopies(const QuantFactors& factors, const FewStages<Shape>& of, int first,
                         int own_lane)
      : q(factors), stages(of), lane(own_lane) {
    const int row = lane / Shape::kWPieces;
    w_piece = lane % Shape::kWPieces * 16;
    w_at = row * Shape::kWStride + w_piece;
    column = first + row;
    whole = first + Shape::kColumns <= q.f.n_out;
    w = q.w + (int64_t{column_there(q.f, column)} * q.f.w_stride + w_piece);
  }
  // A row of W has whole pieces of 16 bytes.
  TENON_DEVICE void copy_w(int k, int stage) const {
    const int at = k * Shape::kBits / 8;
    const Shared<uint8_t> to = stages.w_of(stage) + w_at;
    if (at + w_piece >= q.f.w_stride) {
      TENON_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        store_pack(to + i * kApart * Shape::kWStride, Pack<uint8_t, 16>{});
      }
    } else if (whole) {
      const int64_t apart = int64_t{kApart} * q.f.w_stride;
      TENON_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        copy_async_16(to + i * kApart * Shape::kWStride, w + (i * apart + at));
      }
    } else {
      for (int i = 0; i < kCopies; ++i) {
        const int64_t own = column_there(q.f, column + i * kApart);
        copy_async_16(to + i * kApart * Shape::kWStride, q.w + (own * q.f.w_stride + w_piece + at));
      }
    }
  }
  // `count` elements from k on. All warps of a multiprocessor read the same: were it not kept
  // there, they would keep the few parts of L2 that have it busier than memory keeps the others.
  template <int count>
  TENON_DEVICE void copy_x(int k, Shared<BFloat16> to) const {
    const int rows = static_cast<int>(q.f.rows);
    const int own = lane * 8;
    for (int row = 0; row < rows; ++row) {
      const Global<const BFloat16> from =
          q.f.x + (static_cast<int64_t>(row) * q.f.x_stride + k + own);
      const Shared<BFloat16> own_to = to + (row * Shape::kXStride + own);
      if (k + count <= q.f.k_in) {
        TENON_UNROLL
        for (int i = 0; i < count; i += 256) {
          if (count % 256 == 0 || own + i < count) copy_async_16_by_l1(own_to + i, from + i);
        }
        continue;
      }
      for (int i = 0; own + i < count; i += 256) {
        const int left = (q.f.k_in - k - own - i) * 2;
        const uint32_t bytes = left < 0 ? 0 : left < 16 ? static_cast<uint32_t>(left) : 16;
        copy_async_16_by_l1(own_to + i, bytes > 0 ? from + i : q.f.x, bytes);
      }
    }
  }

 private:
  static constexpr int kApart = 32 / Shape::kWPieces;  // columns that a warp copies at once
  static constexpr int kCopies = Shape::kColumns / kApart;
};

// A from rows of x: a lane's place in a step.
template <typename Shape>
struct FewRows {
  Shared<BFloat16> at;
  int moves;  // 0 where the lane's row is not there

  TENON_DEVICE FewRows(const FewStages<Shape>& stages, int stage, int step, int rows, int lane)
      : at(stages.zeros), moves(0) {
    if (lane % 16 >= rows) return;
    at = stages.x_of(stage, step) + (lane % 16 * Shape::kXStride + lane / 16 * 8);
    moves = 1;
  }
  // A run from k on.
  TENON_DEVICE void load(uint32_t (&a)[Shape::kRun / 16][4], int k) const {
    TENON_UNROLL
    for (int i = 0; i < Shape::kRun / 16; ++i) load_matrix_x4(a[i], at + moves * (k + i * 16));
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
    const int threads = static_cast<int>(blockDim.x);
    const int all_rows = groups * rows;
    for (int i = static_cast<int>(threadIdx.x); i < all_rows * Shape::kColumns; i += threads) {
      const int own = i / Shape::kColumns;  // of a group's rows
      const int column = i % Shape::kColumns;
      float total = all[i];
      for (int piece = 1; piece < pieces; ++piece) {
        total += float{all[i + piece * all_rows * Shape::kColumns]};
      }
      const int group = groups == 1 ? 0 : own / rows;
      put_product(f, own - group * rows,
                  (static_cast<int>(blockIdx.x) * groups + group) * Shape::kColumns + column,
                  total);
    }
  }
};

// Grid: `groups` · kColumns columns. A block has blockDim.x / 32 / groups warps for the pieces of
// K, for each of its groups of columns.
template <typename Shape>
__global__ void __launch_bounds__(kFewProductWarps * 32) multiply_few(QuantFactors q, int groups) {
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
  const FewCopies<Shape> copies(q, stages, column, lane);
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
    if (Shape::kWholeX) {
      copies.template copy_x<kPieceElements>(begin, stages.x);
      copy_async_commit();
    }
    for (int step = Shape::kWholeX; step < Shape::kStages - 1; ++step) {
      if (!Shape::kWholeX && step < steps) {
        copies.template copy_x<Shape::kStep>(begin + step * Shape::kStep, stages.x_of(step, step));
      }
      copy_async_commit();
    }
    int stage = 0;
    int filled = Shape::kStages - 1;
    for (int step = 0; step < steps; ++step) {
      copy_async_wait<Shape::kStages - 2>();
      __syncwarp();  // this stage is there, and the one that is filled next was used
      if (const int next = step + Shape::kStages - 1; next < steps) {
        const int k = begin + next * Shape::kStep;
        copies.copy_w(k, filled);
        if (!Shape::kWholeX) copies.template copy_x<Shape::kStep>(k, stages.x_of(filled, next));
      }
      copy_async_commit();
      const FewRows<Shape> x(stages, stage, step, rows, lane);
      weights.enter(stages.w_of(stage));
      TENON_UNROLL
      for (int k = 0; k < Shape::kStep; k += Shape::kRun) {
        uint32_t a[Shape::kRun / 16][4];
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
