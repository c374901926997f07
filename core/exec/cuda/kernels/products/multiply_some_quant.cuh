// Products of more rows than a warp multiplies at once, with weights of 8 or 4 bits. Integers come
// to shared memory as they are, with their scales and zeros; each warp makes the fragments of its
// columns out of them, once for all of its rows. Lanes share K as in multiply_some.cuh, and an
// element is the same chain of mma and additions as in multiply_quant.cuh.
#pragma once

#include "core/exec/cuda/kernels/products/few_columns.cuh"
#include "core/exec/cuda/kernels/products/multiply_quant.cuh"
#include "core/exec/cuda/kernels/products/multiply_some.cuh"

namespace tenon::cuda {

// What a lane has of W at a time: blocks (quant_block) of its columns, and for each segment of K
// that begins in one, or lies around it, the scales and zeros.
template <typename T, typename CodesOf>
struct CodeBlocks {
  using Codes = CodesOf;
  using Scale = typename Codes::Scale;
  static constexpr int kBlock = quant_block(Codes::kBits);
  static constexpr int kSteps = kBlock / T::kStep;
  static constexpr int kPieceBlocks = kPieceElements / kBlock;
  // Of blocks, so many are there or on their way: one more than those that x has been asked for.
  static constexpr int kRing = (T::kStages + kSteps - 1) / kSteps + 1;
  static constexpr int kRuns = T::kStep / 32;    // of a step: what quant_fragments makes at once
  static constexpr int kColumnBytes = 64;        // of a block
  static constexpr int kSegments = kBlock / 32;  // of a block, at most
  static constexpr int kFactors = kSegments * T::kColumns;
  static constexpr int kZeros = Codes::kFloats ? 0 : kFactors;
  // Of a lane: codes, then scales, then zeros of all blocks.
  static constexpr int kBytes =
      kRing * (T::kColumns * kColumnBytes + kFactors * static_cast<int>(sizeof(Scale)) + kZeros);

  const QuantFactors& q;
  int thread, lane, lanes, first;  // column
  int blocks;                      // of K
  bool whole;                      // scales and zeros are there for all columns, and aligned
  Shared<uint8_t> codes;
  Shared<Scale> scales;
  Shared<uint8_t> zeros;

  TENON_DEVICE CodeBlocks(SharedArena& arena, const QuantFactors& of, int own_thread, int own_lane,
                          int lane_count, int column)
      : q(of),
        thread(own_thread),
        lane(own_lane),
        lanes(lane_count),
        first(column),
        blocks((of.f.k_in + kBlock - 1) / kBlock),
        whole(of.aligned && column + T::kColumns <= of.f.n_out),
        codes(arena.take<uint8_t>(lane_count * kRing * T::kColumns * kColumnBytes) +
              own_lane * kRing * T::kColumns * kColumnBytes),
        scales(arena.take<Scale>(lane_count * kRing * kFactors) + own_lane * kRing * kFactors),
        zeros(arena.take<uint8_t>(lane_count * kRing * kZeros) + own_lane * kRing * kZeros) {}

  // Of a block; one that is part of a segment has its scales too.
  TENON_DEVICE int segments() const {
    return q.segment == 32 ? kSegments : 2 * q.segment == kBlock ? 2 : 1;
  }
  // Which one of K the lane's block number `own` is.
  TENON_DEVICE int of_all(int own) const {
    return (own / kPieceBlocks * lanes + lane) * kPieceBlocks + own % kPieceBlocks;
  }
  TENON_DEVICE void copy(int own) const {
    const int block = of_all(own);
    if (block >= blocks) return;
    const int place = own % kRing;
    const Shared<uint8_t> to = codes + place * T::kColumns * kColumnBytes;
    TENON_UNROLL
    for (int i = 0; i < T::kColumns * 4 / T::kThreads; ++i) {
      const int chunk = thread + i * T::kThreads;
      const int64_t column = column_there(q.f, first + chunk / 4);
      copy_async_16(to + chunk * 16,
                    q.w + (column * q.f.w_stride + block * kColumnBytes + chunk % 4 * 16));
    }
    if (whole) {
      copy_factors(block, place);
    } else {
      copy_factors_each(block, place);
    }
  }
  // A lane's words of block `own`, of its columns number n · 8 + lane / 4 from `column` on.
  TENON_DEVICE void load(Pack<uint32_t, 4> (&to)[T::kColumnTiles], int own, int column) const {
    const int of_warp = static_cast<int>(threadIdx.x) % 32;
    const Shared<uint8_t> from =
        codes + ((own % kRing * T::kColumns + column) * kColumnBytes + of_warp * 16);
    TENON_UNROLL
    for (int n = 0; n < T::kColumnTiles; ++n) {
      to[n] = load_words<4>(from + n * 8 * kColumnBytes);
    }
  }
  // Where scales and zeros begin for elements 32 · run and on of block `own`.
  TENON_DEVICE int factors_at(int own, int run) const {
    const int index = q.segment == 32 ? run : 2 * q.segment == kBlock ? 2 * run / kSegments : 0;
    return own % kRing * kFactors + index * T::kColumns;
  }

 private:
  TENON_DEVICE int64_t group_at(int block, int index) const {
    const int group = q.group_of(block * kBlock + index * q.segment);
    return q.factor_at(group < q.groups ? group : q.groups - 1, first);
  }
  TENON_DEVICE void copy_factors(int block, int place) const {
    constexpr int kScales = 16 / static_cast<int>(sizeof(Scale));  // of a chunk
    constexpr int kScaleChunks = T::kColumns / kScales;
    constexpr int kChunks = kScaleChunks + (Codes::kFloats ? 0 : T::kColumns / 16);
    const auto copy_chunk = [&](int i) {
      const int index = i / kChunks;
      const int chunk = i % kChunks;
      const int64_t from = group_at(block, index);
      const int to = place * kFactors + index * T::kColumns;
      if (chunk < kScaleChunks) {
        copy_async_16(scales + (to + chunk * kScales),
                      q.scales.of<Codes>() + (from + chunk * kScales));
      } else if (q.zeros) {
        const int skipped = (chunk - kScaleChunks) * 16;
        copy_async_16(zeros + (to + skipped), q.zeros + (from + skipped));
      }
    };
    if constexpr (T::kThreads >= kSegments * kChunks) {
      if (thread < segments() * kChunks) copy_chunk(thread);
    } else {
      TENON_UNROLL_BY(1)
      for (int i = thread; i < segments() * kChunks; i += T::kThreads) copy_chunk(i);
    }
  }
  TENON_DEVICE void copy_factors_each(int block, int place) const {
    TENON_UNROLL_BY(1)
    for (int i = thread; i < segments() * T::kColumns; i += T::kThreads) {
      const int64_t from =
          group_at(block, i / T::kColumns) - first + column_there(q.f, first + i % T::kColumns);
      const int to = place * kFactors + i;
      scales[to] = q.scales.of<Codes>()[from];
      if (!Codes::kFloats && q.zeros) zeros[to] = q.zeros[from];
    }
  }
};

// Warps have 16 columns each: with more they would need so many registers that few of them fit.
// Two to a lane, eight, or of many rows twice as many.
template <int rows>
using NarrowCodesTile = SomeTile<rows, 2, 16, rows, 64, 3>;
template <int rows>
using WideCodesTile = SomeTile<rows, 8, 16, rows, 64, 3>;
using ManyCodesTile = SomeTile<128, 8, 16, 64, 64, 3>;

// The most lanes of a block. Where a lane has many warps, the block beside it does not wait for it.
template <typename T>
inline constexpr int kCodeLanes = T::kThreads >= 256 ? 1 : 512 / T::kThreads;

template <typename T, typename Codes>
TENON_DEVICE void multiply_codes(const QuantFactors& q, int lane_count, bool pairs) {
  using Blocks = CodeBlocks<T, Codes>;
  constexpr int kXStage = T::kRows * T::kStep;  // elements
  const Factors<BFloat16>& f = q.f;
  const int thread = static_cast<int>(threadIdx.x) % T::kThreads;
  const int lanes = kCodeLanes<T> == 1 ? 1 : lane_count;
  const int lane = lanes == 1 ? 0 : static_cast<int>(threadIdx.x) / T::kThreads;
  const int of_warp = static_cast<int>(threadIdx.x) % 32;
  SharedArena arena;
  const Shared<BFloat16> stages =
      arena.take<BFloat16>(lanes * T::kStages * kXStage) + lane * (T::kStages * kXStage);
  const RoundTotals<T> totals(arena, lane, lanes);
  const TilePlace<T> place(f.rows, f.n_out);
  const Blocks blocks(arena, q, thread, lane, lanes, place.column);
  Chunks<T, T::kRows> x_chunks(thread, f.x, place.row, f.rows, f.k_in * 2, f.x_stride);
  LaneSteps<T> x_steps(lane, lanes);
  x_chunks.skip(x_steps.next);
  const auto fill = [&](int at) {
    x_chunks.template copy<false>(stages + at, x_steps.next);
    x_chunks.skip(x_steps.advance() - 1);
    copy_async_commit();
  };
  let_next_start();
  for (int own = 0; own < Blocks::kRing; ++own) blocks.copy(own);
  wait_for_earlier();  // so far nothing was read that kernels write
  for (int stage = 0; stage < T::kStages; ++stage) fill(stage * kXStage);
  copy_async_wait<T::kStages - 1>();
  wait_for_lane<T>();

  const WarpPart<T> part(thread);
  // With two buffers, the next sixteen of K are loaded while these are multiplied; of many rows
  // there are registers for one.
  constexpr int kBuffers = T::kRowTiles > 2 ? 1 : 2;
  uint32_t a[kBuffers][T::kRowTiles][4];
  const auto load_rows = [&](uint32_t(&to)[T::kRowTiles][4], int at, int k) {
    const Shared<BFloat16> rows = stages + (at + part.a + (part.a_chunk ^ 2 * k) * 8);
    TENON_UNROLL
    for (int m = 0; m < T::kRowTiles; ++m) load_matrix_x4(to[m], rows + m * 16 * T::kStep);
  };
  if (kBuffers == 2) load_rows(a[0], 0, 0);
  int at = 0;
  WarpSums<T> sums = {};
  WarpSums<T> of_segment = {};
  Pack<uint32_t, 4> own[T::kColumnTiles] = {};
  uint32_t zero[T::kColumnTiles] = {};
  const auto load_zeros = [&](int factors) {
    TENON_UNROLL
    for (int n = 0; n < T::kColumnTiles; ++n) {
      uint8_t byte = 0;
      if (q.zeros) byte = blocks.zeros[factors + n * 8 + of_warp / 4];
      zero[n] = quant_zero<Codes>(static_cast<bool>(q.zeros), byte);
    }
  };
  const auto add_segment = [&](int factors) {
    TENON_UNROLL
    for (int n = 0; n < T::kColumnTiles; ++n) {
      const auto pair = load_pack<2>(blocks.scales + (factors + n * 8 + of_warp % 4 * 2));
      const float scales[2] = {to_float(pair[0]), to_float(pair[1])};
      TENON_UNROLL
      for (int m = 0; m < T::kRowTiles; ++m) {
        TENON_UNROLL
        for (int i = 0; i < 4; ++i) {
          sums[m][n][i] = fmaf(scales[i % 2], of_segment[m][n][i], sums[m][n][i]);
          of_segment[m][n][i] = 0.0f;
        }
      }
    }
  };
  const int steps = (f.k_in + T::kStep - 1) / T::kStep;
  const int pieces = (steps + T::kPieceSteps - 1) / T::kPieceSteps;
  const int in_segment = q.segment / 32 - 1;  // bits of a run's number: 0, 1 or 3
  constexpr int kSixteens = T::kStep / 16;
  // A run is 32 of K, number `of_all` of those, `run` of the lane's block number `block`, and
  // begins 16 · `k` behind its step.
  const auto multiply_run = [&](int of_all, int block, int run, int k, bool last) {
    const int factors = blocks.factors_at(block, run) + part.column;
    if (!Codes::kFloats && (of_all & in_segment) == 0) load_zeros(factors);
    TENON_UNROLL
    for (int i = k; i < k + 2; ++i) {
      if (kBuffers == 1) load_rows(a[0], at, i);
      if (kBuffers == 2 && i + 1 < kSixteens) load_rows(a[(i + 1) % 2], at, i + 1);
      TENON_UNROLL
      for (int n = 0; n < T::kColumnTiles; ++n) {
        uint32_t b[2][2];
        quant_fragments<Codes>(b, own[n], run, zero[n]);
        TENON_UNROLL
        for (int m = 0; m < T::kRowTiles; ++m) {
          mma_bf16(of_segment[m][n], a[i % kBuffers][m], b[i % 2]);
        }
      }
    }
    if (((of_all + 1) & in_segment) == 0 || last) add_segment(factors);
  };
  // Behind K, other lanes may go on.
  const auto multiply_step = [&](int block, int of_block) {
    const int step = blocks.of_all(block) * Blocks::kSteps + of_block;  // of K
    if (step < steps) {
      TENON_UNROLL
      for (int i = 0; i < Blocks::kRuns; ++i) {
        multiply_run(step * Blocks::kRuns + i, block, of_block * Blocks::kRuns + i, i * 2,
                     i + 1 == Blocks::kRuns && step + 1 == steps);
      }
    }
    copy_async_wait<T::kStages - 2>();
    wait_for_lane<T>();  // the next stage is there, and this one was read
    const int used = at;
    at = at + kXStage < T::kStages * kXStage ? at + kXStage : 0;
    if (kBuffers == 2) load_rows(a[0], at, 0);
    // The step that x is asked for now begins a block; the one behind that comes where this one
    // was.
    constexpr int kCopies = (Blocks::kSteps - T::kStages % Blocks::kSteps) % Blocks::kSteps;
    if (of_block == kCopies) blocks.copy(block + Blocks::kRing);
    fill(used);
  };
  int block = 0;
  for (int first = 0; first < pieces; first += lanes) {
    const int left = steps - first * T::kPieceSteps;
    const int round_steps = left < T::kPieceSteps ? left : T::kPieceSteps;
    for (int step = 0; step < round_steps; step += Blocks::kSteps, ++block) {
      if (blocks.of_all(block) < blocks.blocks) blocks.load(own, block, part.column);
      TENON_UNROLL
      for (int run = 0; run < Blocks::kSteps; ++run) {
        if (step + run < round_steps) multiply_step(block, run);
      }
    }
    if (totals.end_round(sums, first, pieces)) break;
  }
  copy_async_wait<0>();
  if (lane > 0) return;
  put_sums<T>(f, sums, place.row + part.row, place.column + part.column, pairs);
}

// Grid: tiles of rows × columns. A block has `lanes` · T::kThreads threads.
template <typename T, typename Codes>
__global__ void __launch_bounds__(kCodeLanes<T>* T::kThreads, 512 / (kCodeLanes<T> * T::kThreads))
    multiply_some_quant(QuantFactors q, int lanes, bool pairs) {
  // Of many rows it is launched where there is much shared memory alone (launch_quant.cu).
  if constexpr (kMuchShared || T::kRows <= 64) multiply_codes<T, Codes>(q, lanes, pairs);
}

}  // namespace tenon::cuda
