// Products of few rows with weights of 8 or 4 bits. They take as long as memory takes to bring W
// where warps issue few instructions for it: so W goes from global memory to registers and is A of
// a mma, 16 of its columns, and rows of x are B, 8 of them. An element is the same chain of mma and
// additions as in multiply_quant.cuh.
#pragma once

#include "core/exec/cuda/kernels/few_columns.cuh"
#include "core/exec/cuda/kernels/multiply_quant.cuh"

namespace tenon::cuda {

// In what runs of K groups begin and end; whether each run is a group; for how many rows, in tiles
// of 8. For few rows there are many warps of few registers, whose loads are on their way while
// others multiply.
template <int bit_count, int run_elements, bool run_is_group, int tile_count>
struct FewQuantShape {
  static constexpr int kBits = bit_count;
  static constexpr int kRun = run_elements;
  static constexpr bool kRunIsGroup = run_is_group;
  static constexpr int kTiles = tile_count;
  // Of a block, at most: what many short groups keep takes registers.
  static constexpr int kWarps =
      run_elements != 128 ? (bit_count == 8 ? 10 : 12) : (tile_count > 1 ? 16 : 14);
  static constexpr int kBlocks = tile_count == 1 ? 2 : 1;  // of those, in the registers there are

  static constexpr int kBlock = quant_block(kBits);
  static constexpr int kStep = 2 * kBlock;  // of K: what a warp loads ahead
  static constexpr int kPieceSteps = kPieceElements / kStep;
  static constexpr int kRuns = kStep / kRun;
  static constexpr int kFactors = kRuns * kFewColumns;  // of a step
  static constexpr int kXStride = kPieceElements + 8;   // elements: rows meet no bank twice
};

// Warps of a block are `across` groups of columns, times `down` that share K: a warp has `run`
// pieces one behind the other, of every run · down. So many pieces of x are there at a time.
struct FewQuantPlan {
  int pieces, run, down, across;
};

// The number of a warp's step of K, and of those that follow; behind the last one, of steps that K
// does not have.
template <typename Shape>
struct FewQuantSteps {
  const FewQuantPlan& plan;
  int step, left;

  TENON_DEVICE FewQuantSteps(const FewQuantPlan& of, int own)
      : plan(of), step(own * of.run * Shape::kPieceSteps), left(of.run * Shape::kPieceSteps) {}
  TENON_DEVICE int take() {
    const int taken = step++;
    if (--left == 0) {
      left = plan.run * Shape::kPieceSteps;
      step += (plan.down - 1) * left;
    }
    return taken;
  }
};

// Scales and zeros of a warp's columns, for a step and the next one. A group's is a word: its
// scale, and above it what is taken from its integers. Two lanes load those of a column.
template <typename Shape>
struct FewFactors {
  static constexpr int kOwnRuns = Shape::kRuns > 1 ? Shape::kRuns / 2 : 1;
  const QuantFactors& q;
  Shared<uint32_t> words;  // [2, runs, columns]
  int column;              // of the lane, in W
  int own_run, own_column;
  // As they came: what is made of them at once would be waited for.
  Half scales[kOwnRuns] = {};
  uint8_t zeros[kOwnRuns] = {};

  TENON_DEVICE FewFactors(const QuantFactors& factors, Shared<uint32_t> own, int first, int lane)
      : q(factors),
        words(own),
        column(column_there(factors.f, first + lane % kFewColumns)),
        own_run(lane / kFewColumns * kOwnRuns),
        own_column(lane % kFewColumns) {}

  TENON_DEVICE void load(int step) {
    if (step * Shape::kStep >= q.f.k_in || own_run >= Shape::kRuns) return;
    TENON_UNROLL
    for (int i = 0; i < kOwnRuns; ++i) {
      const int64_t at = q.factor_at(group_of(step * Shape::kRuns + own_run + i), column);
      scales[i] = q.scales[at];
      if (q.zeros) zeros[i] = q.zeros[at];
    }
  }
  TENON_DEVICE void store(int buffer) const {
    if (own_run >= Shape::kRuns) return;
    TENON_UNROLL
    for (int i = 0; i < kOwnRuns; ++i) {
      words[buffer * Shape::kFactors + (own_run + i) * kFewColumns + own_column] =
          scales[i].bits | taken(zeros[i]) << 16;
    }
  }
  TENON_DEVICE uint32_t word(int buffer, int run, int of_column) const {
    return words[buffer * Shape::kFactors + run * kFewColumns + of_column];
  }
  static TENON_DEVICE float scale(uint32_t word) {
    return to_float(Half{static_cast<uint16_t>(word)});
  }
  // As quant_zero makes it.
  static TENON_DEVICE uint32_t zero(uint32_t word) {
    if (Shape::kBits == 4) return permute_bytes(word, word, 0x3232u);
    return 0x4b000080u + static_cast<uint32_t>(static_cast<int32_t>(word) >> 16);
  }

 private:
  TENON_DEVICE uint32_t taken(uint8_t zero) const {
    if (Shape::kBits == 4) return 0xc300u + (q.zeros ? zero : 8);  // as quant_zero
    return static_cast<uint32_t>(q.zeros ? static_cast<int8_t>(zero) : 0);
  }
  // Behind K, the last one: x has zeros there.
  TENON_DEVICE int group_of(int run) const {
    if (!Shape::kRunIsGroup) run = run * Shape::kRun / q.group;
    return run < q.groups ? run : q.groups - 1;
  }
};

// Brings the pieces of x from `first` on to shared memory, [pieces, rows, kXStride], with zeros
// behind K.
template <typename Shape>
TENON_DEVICE void copy_pieces(const Factors<BFloat16>& f, Shared<BFloat16> x, int first,
                              int count) {
  constexpr int kCopies = kPieceElements / 8;
  const int rows = static_cast<int>(f.rows);
  const int threads = static_cast<int>(blockDim.x);
  for (int row = 0; row < rows; ++row) {
    const Global<const BFloat16> from =
        f.x + (static_cast<int64_t>(row) * f.x_stride + first * kPieceElements);
    for (int i = static_cast<int>(threadIdx.x); i < count * kCopies; i += threads) {
      const int left = (f.k_in - first * kPieceElements - i * 8) * 2;
      const uint32_t bytes = left < 0 ? 0 : left < 16 ? static_cast<uint32_t>(left) : 16;
      copy_async_16_by_l1(x + ((i / kCopies * rows + row) * Shape::kXStride + i % kCopies * 8),
                          bytes > 0 ? from + i * 8 : f.x, bytes);
    }
  }
  copy_async_commit();
  copy_async_wait<0>();
}

// A warp's way along its steps.
template <typename Shape>
struct FewQuantWarp {
  const QuantFactors& q;
  FewFactors<Shape> factors;
  FewQuantSteps<Shape> steps;
  Global<const uint8_t> w[2];          // of the lane's two columns, its part of their first block
  Pack<uint32_t, 4> codes[2][2] = {};  // of the blocks of a step, those columns
  int lane, next, buffer = 0;
  int group_left = 0;  // along K
  uint32_t words[2] = {};
  float sums[Shape::kTiles][4];
  float part[Shape::kTiles][4];
  int x_rows[Shape::kTiles];  // elements: the lane's rows, or others where there are none

  TENON_DEVICE FewQuantWarp(const QuantFactors& of, const FewQuantPlan& plan,
                            Shared<uint32_t> words_of, int column, int own, int own_lane)
      : q(of), factors(of, words_of, column, own_lane), steps(plan, own), lane(own_lane) {
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      w[i] = q.w +
             (int64_t{column_there(q.f, column + lane / 4 + i * 8)} * q.f.w_stride + lane % 4 * 16);
    }
    TENON_UNROLL
    for (int n = 0; n < Shape::kTiles; ++n) {
      const int rows = static_cast<int>(q.f.rows);
      const int row = n * 8 + lane % 8;
      x_rows[n] = (row < rows ? row : rows - 1) * Shape::kXStride + lane / 8 * 8;
    }
    const int first = steps.take();
    factors.load(first);
    load_block(first, 0);
    load_block(first, 1);
    factors.store(0);
    next = steps.take();
    factors.load(next);
    __syncwarp();
  }

  TENON_DEVICE void load_block(int step, int block) {
    const int k = step * Shape::kStep + block * Shape::kBlock;
    if (k >= q.f.k_in) return;
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      codes[block][i] = load_words_once(w[i] + int64_t{step} * 128 + block * 64);
    }
  }
  TENON_DEVICE void begin_piece(int begin) {
    if (!Shape::kRunIsGroup) group_left = (begin / q.group + 1) * q.group - begin;
    clear_sums(sums);
    clear_sums(part);
  }
  TENON_DEVICE void end_group() {
    const float scales[2] = {factors.scale(words[0]), factors.scale(words[1])};
    TENON_UNROLL
    for (int n = 0; n < Shape::kTiles; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) sums[n][i] = fmaf(scales[i / 2], part[n][i], sums[n][i]);
    }
    clear_sums(part);
  }
  TENON_DEVICE void begin_run(int run) {
    if (!Shape::kRunIsGroup) {
      if (group_left == 0) {
        end_group();
        group_left = q.group;
      }
      group_left -= Shape::kRun;
    }
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) words[i] = factors.word(buffer, run, lane / 4 + i * 8);
  }
  TENON_DEVICE void load_x(uint32_t (&b)[Shape::kTiles][4], Shared<BFloat16> x) const {
    TENON_UNROLL
    for (int n = 0; n < Shape::kTiles; ++n) load_matrix_x4(b[n], x + x_rows[n]);
  }
  // A step of 16 columns with x from the step's k on. What the warp multiplies next is loaded.
  TENON_DEVICE void multiply_step(Shared<BFloat16> x) {
    constexpr int kBlockRuns = Shape::kBlock / 32;  // of 32 elements
    constexpr int kGroupRuns = Shape::kRun / 32;
    uint32_t b[2][Shape::kTiles][4];
    load_x(b[0], x);
    TENON_UNROLL
    for (int i = 0; i < 2 * kBlockRuns; ++i) {
      const int block = i / kBlockRuns;
      if (i % kGroupRuns == 0) begin_run(i / kGroupRuns);
      if (i + 1 < 2 * kBlockRuns) load_x(b[(i + 1) % 2], x + (i + 1) * 32);
      uint32_t a[2][4];
      TENON_UNROLL
      for (int column = 0; column < 2; ++column) {
        uint32_t pairs[2][2];
        quant_fragments<Shape::kBits>(pairs, codes[block][column], i % kBlockRuns,
                                      factors.zero(words[column]));
        TENON_UNROLL
        for (int j = 0; j < 4; ++j) a[j / 2][j % 2 * 2 + column] = pairs[j / 2][j % 2];
      }
      TENON_UNROLL
      for (int n = 0; n < Shape::kTiles; ++n) {
        const uint32_t(&own)[4] = b[i % 2][n];
        mma_bf16(part[n], a[0], {own[0], own[1]});
        mma_bf16(part[n], a[1], {own[2], own[3]});
      }
      if (i % kBlockRuns + 1 == kBlockRuns) load_block(next, block);
      if (Shape::kRunIsGroup && i % kGroupRuns + 1 == kGroupRuns) end_group();
    }
    buffer ^= 1;
    factors.store(buffer);
    next = steps.take();
    factors.load(next);
    __syncwarp();  // the next step's factors are there
  }
  TENON_DEVICE void end_piece(const FewParts& parts, int piece, int group) {
    if (!Shape::kRunIsGroup) end_group();
    TENON_UNROLL
    for (int i = 0; i < Shape::kTiles * 4; ++i) {
      parts.keep(piece, group, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + i / 2 % 2 * 8,
                 sums[i / 4][i % 4]);
    }
  }
};

// Grid: across · kFewColumns columns.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kWarps * 32, Shape::kBlocks)
    multiply_few_quant(QuantFactors q, FewQuantPlan plan) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int threads = static_cast<int>(blockDim.x);
  const int rows = static_cast<int>(q.f.rows);
  const int group = warp % plan.across;
  const int own = warp / plan.across;
  const int column = (static_cast<int>(blockIdx.x) * plan.across + group) * kFewColumns;
  const int resident = plan.run * plan.down;
  const int most = plan.pieces < resident ? plan.pieces : resident;
  SharedArena arena;
  const Shared<BFloat16> x = arena.take<BFloat16>(most * rows * Shape::kXStride);
  const FewParts parts = {arena.take<float>(most * plan.across * rows * kFewColumns), plan.across,
                          rows};
  const Shared<float> totals = arena.take<float>(parts.elements());
  const Shared<uint32_t> words = arena.take<uint32_t>(threads / 32 * 2 * Shape::kFactors);
  FewQuantWarp<Shape> own_warp(q, plan, words + warp * 2 * Shape::kFactors, column, own, lane);
  wait_for_earlier();
  for (int first = 0; first < plan.pieces; first += resident) {
    const int count = plan.pieces - first < resident ? plan.pieces - first : resident;
    copy_pieces<Shape>(q.f, x, first, count);
    __syncthreads();  // x is there, and parts were added up
    for (int i = 0; i < plan.run; ++i) {
      const int piece = own * plan.run + i;
      if (piece >= count) break;
      const int begin = (first + piece) * kPieceElements;
      own_warp.begin_piece(begin);
      TENON_UNROLL_BY(1)
      for (int k = 0; k < kPieceElements && begin + k < q.f.k_in; k += Shape::kStep) {
        own_warp.multiply_step(x + (piece * rows * Shape::kXStride + k));
      }
      own_warp.end_piece(parts, piece, group);
    }
    __syncthreads();  // parts are there, and x was used
    const bool last = first + resident >= plan.pieces;
    // No sooner: blocks of kernels that are far behind would fill the multiprocessors that are free
    // first, and theirs alone.
    if (last) let_next_start();
    for (int i = static_cast<int>(threadIdx.x); i < parts.elements(); i += threads) {
      const float total = parts.total(i, count, first == 0 ? -0.0f : float{totals[i]});
      if (last)
        parts.put(q.f, i, total);
      else
        totals[i] = total;
    }
  }
}

}  // namespace tenon::cuda
