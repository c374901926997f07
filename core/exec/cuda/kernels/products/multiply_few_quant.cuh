// Products of few rows with weights of 8 or 4 bits. They take as long as memory takes to bring W
// where warps issue few instructions for it: so W goes from global memory to registers and is A of
// a mma, 16 of its columns, and rows of x are B, 8 of them. Warps that share a column take turns at
// K; what each segment of K sums up to goes to shared memory, and scales enter when all of it is
// there. An element is the same chain of mma and additions as in multiply_quant.cuh.
#pragma once

#include "core/exec/cuda/kernels/products/few_columns.cuh"
#include "core/exec/cuda/kernels/products/multiply_quant.cuh"
#include "core/exec/cuda/kernels/row_functions.cuh"

namespace tenon::cuda {

// In what segments K is summed up (quant_segment), and whether each is a group. There are many
// warps of few registers, whose loads are on their way while others multiply.
template <typename CodesOf, int segment_elements, bool segment_is_group>
struct FewQuantShape {
  using Codes = CodesOf;
  static constexpr int kSegment = segment_elements;
  static constexpr bool kSegmentIsGroup = segment_is_group;
  static constexpr int kWarps = 14;  // of a block, at most
  static constexpr int kBlocks = 2;  // of those, in the registers there are

  static constexpr int kBlock = quant_block(Codes::kBits);
  static constexpr int kStep = 2 * kBlock;  // of K: what a warp loads ahead
  static constexpr int kPieceSteps = kPieceElements / kStep;
  static constexpr int kSegments = kStep / kSegment;  // of a step
  static constexpr int kPieceSegments = kPieceElements / kSegment;
};

// Warps of a block are 2 to the `across_log` groups of columns, times `down` that take turns at the
// steps of K. `chunk` steps of x are there at a time: whole pieces of K, and where there are
// several chunks, as many steps for each warp.
struct FewQuantPlan {
  int steps, chunk, down, across_log;
  bool gated;
  Gated out;

  TENON_HOST_AND_DEVICE int across() const { return 1 << across_log; }
  TENON_HOST_AND_DEVICE int columns() const { return kFewColumns << across_log; }
};

// Which columns of W a block's groups are. Where a gate and an up are multiplied, groups of even
// numbers are the gate's, and each is followed by the same columns of up.
struct FewQuantColumns {
  int width;  // columns of the gate, or all
  int first;  // of the block
  bool gated;

  TENON_DEVICE FewQuantColumns(const QuantFactors& q, const FewQuantPlan& plan)
      : width(plan.gated ? q.f.n_out / 2 : q.f.n_out),
        first(static_cast<int>(blockIdx.x) * (plan.columns() >> (plan.gated ? 1 : 0))),
        gated(plan.gated) {}
  TENON_DEVICE int of(int group) const {
    if (!gated) return first + group * kFewColumns;
    return first + group / 2 * kFewColumns + group % 2 * width;
  }
  TENON_DEVICE bool all_there(const FewQuantPlan& plan) const {
    return first + (plan.columns() >> (gated ? 1 : 0)) <= width;
  }
};

// The scales and zeros of a chunk, [groups, columns], on their way from global memory while W is.
template <typename Shape>
struct FewQuantScales {
  using Codes = typename Shape::Codes;
  using Scale = typename Codes::Scale;
  static constexpr int kLanes = static_cast<int>(kFewColumns * sizeof(Scale)) / 16;
  // Of shared memory, for a group and a column.
  static constexpr int kBytes = static_cast<int>(sizeof(Scale)) + (Codes::kFloats ? 0 : 1);
  Shared<Scale> scales;
  Shared<uint8_t> zeros;  // none of floats
  int columns, groups;
  int first;  // of the groups

  // Where each segment is a group, those behind K have one too.
  static TENON_HOST_AND_DEVICE constexpr int groups_of(int all, int group, int chunk) {
    if (Shape::kSegmentIsGroup) return chunk * Shape::kSegments;
    const int most = chunk * Shape::kStep / group + 2;
    return most < all ? most : all;
  }
  TENON_DEVICE FewQuantScales(SharedArena& arena, const QuantFactors& q, const FewQuantPlan& plan)
      : scales(arena.take<Scale>(groups_of(q.groups, q.group, plan.chunk) * plan.columns())),
        zeros(arena.take<uint8_t>(
            Codes::kFloats ? 0 : groups_of(q.groups, q.group, plan.chunk) * plan.columns())),
        columns(plan.columns()),
        groups(groups_of(q.groups, q.group, plan.chunk)),
        first(0) {}
  // Of the chunk that begins with a step. Without waiting where a group's columns are 16 bytes side
  // by side, for copy_async_wait.
  TENON_DEVICE void copy(const QuantFactors& q, const FewQuantPlan& plan, const FewQuantColumns& of,
                         int step) {
    first = Shape::kSegmentIsGroup ? step * Shape::kSegments : step * Shape::kStep / q.group;
    const int threads = static_cast<int>(blockDim.x);
    if (!Codes::kFloats && !q.zeros) {
      const uint8_t usual = Codes::kBits == 4 ? 8 : 0;
      const Pack<uint8_t, 16> all = {{usual, usual, usual, usual, usual, usual, usual, usual, usual,
                                      usual, usual, usual, usual, usual, usual, usual}};
      for (int i = static_cast<int>(threadIdx.x) * 16; i < groups * columns; i += threads * 16) {
        store_pack(zeros + i, all);
      }
    }
    if (q.aligned && of.width % kFewColumns == 0 && of.all_there(plan)) {
      copy_aligned(q, plan, of);
    } else {
      copy_each(q, of);
    }
  }
  // Where those of segment number `own` of the chunk stand, number `segment` of K. Behind K there
  // are the last group's: x has zeros there.
  TENON_DEVICE int place(const QuantFactors& q, int segment, int own) const {
    if (Shape::kSegmentIsGroup) return own * columns;
    const int group = segment * Shape::kSegment / q.group - first;
    return (group < groups ? group : groups - 1) * columns;
  }

 private:
  // Of a group of K and 16 columns, two lanes bring the scales, of floats four, and one the zeros.
  TENON_DEVICE void copy_aligned(const QuantFactors& q, const FewQuantPlan& plan,
                                 const FewQuantColumns& of) const {
    const int lanes_log = plan.across_log + 2;  // of a group of K
    const int own = static_cast<int>(threadIdx.x) & ((1 << lanes_log) - 1);
    const int part = own % 4;
    if (part > kLanes || (part == kLanes && !q.zeros)) return;
    const int skipped = part % kLanes * (kFewColumns / kLanes);
    const int in_block = own / 4 * kFewColumns + skipped;
    const int column = of.of(own / 4) + skipped;
    for (int group = static_cast<int>(threadIdx.x) >> lanes_log; group < groups;
         group += static_cast<int>(blockDim.x) >> lanes_log) {
      const int64_t from = q.factor_at(of_all(q, group), column);
      const int to = group * columns + in_block;
      if (part == kLanes) {
        copy_async_16(zeros + to, q.zeros + from);
      } else {
        copy_async_16(scales + to, q.scales.of<Codes>() + from);
      }
    }
  }
  // Columns that are not there have the last one's, groups behind K those of the last one.
  TENON_DEVICE void copy_each(const QuantFactors& q, const FewQuantColumns& of) const {
    TENON_UNROLL_BY(1)
    for (int i = static_cast<int>(threadIdx.x); i < groups * columns;
         i += static_cast<int>(blockDim.x)) {
      const int group = i / columns;
      const int own = i - group * columns;
      const int column = column_there(q.f, of.of(own / kFewColumns) + own % kFewColumns);
      const int64_t from = q.factor_at(of_all(q, group), column);
      scales[i] = q.scales.of<Codes>()[from];
      if (q.zeros) zeros[i] = q.zeros[from];
    }
  }
  TENON_DEVICE int of_all(const QuantFactors& q, int group) const {
    return first + group < q.groups ? first + group : q.groups - 1;
  }
};

// Steps of x, from `first` on, [rows, stride], with zeros behind K.
template <typename Shape>
struct FewQuantX {
  Shared<BFloat16> all;
  int stride;  // elements: rows meet no bank twice

  static TENON_HOST_AND_DEVICE constexpr int stride_of(int chunk) {
    return chunk * Shape::kStep + 8;
  }
  TENON_DEVICE void copy(const Factors<BFloat16>& f, int first, int count) const {
    const int rows = static_cast<int>(f.rows);
    const int begin = first * Shape::kStep;
    const int end = count * Shape::kStep;
    const int own = static_cast<int>(threadIdx.x) * 8;
    const int apart = static_cast<int>(blockDim.x) * 8;
    const bool whole = begin + end <= f.k_in;
    TENON_UNROLL_BY(1)
    for (int row = 0; row < rows; ++row) {
      const Global<const BFloat16> from = f.x + (static_cast<int64_t>(row) * f.x_stride + begin);
      const Shared<BFloat16> to = all + row * stride;
      if (whole) {
        TENON_UNROLL_BY(4)
        for (int k = own; k < end; k += apart) copy_async_16_by_l1(to + k, from + k);
        continue;
      }
      TENON_UNROLL_BY(1)
      for (int k = own; k < end; k += apart) {
        const int left = (f.k_in - begin - k) * 2;
        const uint32_t bytes = left < 0 ? 0 : left < 16 ? static_cast<uint32_t>(left) : 16;
        copy_async_16_by_l1(to + k, bytes > 0 ? from + k : f.x, bytes);
      }
    }
    copy_async_commit();
    copy_async_wait<0>();
  }
};

// What segments of a chunk sum up to, [segments, groups of columns, rows, kFewColumns], and then,
// where a piece's first segment was, what the piece does.
template <typename Shape>
struct FewQuantParts {
  using Scale = typename Shape::Codes::Scale;
  Shared<float> all;
  int across_log, rows;

  TENON_DEVICE int elements() const { return (rows << across_log) * kFewColumns; }  // of a segment
  // The group of columns in which a segment's row of 16 elements number `index` lies.
  TENON_DEVICE int group_of(int index) const { return rows == 1 ? index : index / rows; }

  // Behind `count` steps from `first` on.
  TENON_DEVICE void add_segments(const QuantFactors& q, const FewQuantScales<Shape>& scales,
                                 int first, int count) const {
    const int of_segment = rows << across_log;  // rows of 16 elements
    const int pieces = (count + Shape::kPieceSteps - 1) / Shape::kPieceSteps;
    const int column = static_cast<int>(threadIdx.x) % kFewColumns;
    TENON_UNROLL_BY(1)
    for (int i = static_cast<int>(threadIdx.x) / kFewColumns; i < pieces * of_segment;
         i += static_cast<int>(blockDim.x) / kFewColumns) {
      const int piece = rows == 1 ? i >> across_log : i / of_segment;
      const int own = i - piece * of_segment;
      const int begin = piece * Shape::kPieceSegments;
      const int segment = first * Shape::kSegments + begin;  // of K
      const int left =
          (q.f.k_in - segment * Shape::kSegment + Shape::kSegment - 1) / Shape::kSegment;
      const int in_block = group_of(own) * kFewColumns + column;
      const Shared<float> from = all + (begin * elements() + own * kFewColumns + column);
      const int there = left < Shape::kPieceSegments ? left : Shape::kPieceSegments;
      float sum = 0.0f;
      TENON_UNROLL_BY(8)
      for (int s = 0; s < there; ++s) {
        const int at = scales.place(q, segment + s, begin + s) + in_block;
        sum = fmaf(to_float(Scale(scales.scales[at])), float{from[s * elements()]}, sum);
      }
      from[0] = sum;
    }
  }
  // Element i of all pieces, added to `before` in their order. What -0 is added to stays what it
  // is, to the bit.
  TENON_DEVICE float total(int i, int count, float before) const {
    const int apart = Shape::kPieceSegments * elements();
    TENON_UNROLL_BY(4)
    for (int step = 0; step < count; step += Shape::kPieceSteps, i += apart) {
      before += float{all[i]};
    }
    return before;
  }
};

// A warp's way along its steps. What it needs for the next one stands where the last one was, so
// many steps further on.
template <typename Shape>
struct FewQuantWarp {
  using Codes = typename Shape::Codes;
  int lane;
  // W.
  Global<const uint8_t> w[2];          // of the lane's two columns, its part of the next block
  Pack<uint32_t, 4> codes[2][2] = {};  // of the blocks of a step, those columns
  int left;                            // of K, from the step on that is loaded next
  int apart;                           // of K, from a step to the next one
  const FewQuantScales<Shape>& scales;
  int own_column;  // of the block: the first of its two
  // The parts of its first row.
  Shared<float> parts;
  int parts_apart;  // from a segment to the next one
  bool there[2];    // its rows
  int x_row;        // elements: the lane's row, or another where it is not there

  TENON_DEVICE FewQuantWarp(const QuantFactors& q, const FewQuantPlan& plan,
                            const FewQuantColumns& of, const FewQuantScales<Shape>& factors,
                            const FewQuantParts<Shape>& sums, int x_stride)
      : lane(static_cast<int>(threadIdx.x) % 32),
        apart(plan.down * Shape::kStep),
        scales(factors),
        parts(sums.all),
        parts_apart(sums.elements()) {
    const int group = static_cast<int>(threadIdx.x) / 32 & (plan.across() - 1);
    const int first = static_cast<int>(threadIdx.x) / 32 >> plan.across_log;
    const int rows = static_cast<int>(q.f.rows);
    left = q.f.k_in - first * Shape::kStep;
    own_column = group * kFewColumns + lane / 4;
    parts = sums.all + ((group * rows + lane % 4 * 2) * kFewColumns + lane / 4);
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int64_t own = column_there(q.f, of.of(group) + lane / 4 + i * 8);
      w[i] = q.w + (own * q.f.w_stride + first * 128 + lane % 4 * 16);
    }
    const int row = lane % 8;
    x_row = (row < rows ? row : rows - 1) * x_stride + lane / 8 * 8;
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) there[i] = lane % 4 * 2 + i < rows;
  }
  TENON_DEVICE void load_block(int block) {
    if (left <= block * Shape::kBlock) return;
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) codes[block][i] = load_words_once(w[i] + block * 64);
  }
  TENON_DEVICE void load_further() {
    left -= apart;
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) w[i] = w[i] + apart / Shape::kStep * 128;
  }
  // A step of 16 columns, with x from its first element of K on; the next one is loaded.
  // `segment` is its first one of K, `own_segment` that of the chunk.
  TENON_DEVICE void multiply_step(Shared<BFloat16> x, int segment, int own_segment,
                                  const QuantFactors& q) {
    constexpr int kBlockRuns = Shape::kBlock / 32;  // of 32 elements
    constexpr int kSegmentRuns = Shape::kSegment / 32;
    uint32_t b[2][4];
    uint32_t zero[2] = {};
    float part[4];
    load_matrix_x4(b[0], x + x_row);
    TENON_UNROLL
    for (int i = 0; i < 2 * kBlockRuns; ++i) {
      const int block = i / kBlockRuns;
      if (i % kSegmentRuns == 0) {
        for (float& sum : part) sum = 0.0f;
        const int of = i / kSegmentRuns;
        const int place = scales.place(q, segment + of, own_segment + of) + own_column;
        TENON_UNROLL
        for (int j = 0; j < 2 && !Codes::kFloats; ++j) {
          zero[j] = quant_zero<Codes>(true, scales.zeros[place + j * 8]);
        }
      }
      if (i + 1 < 2 * kBlockRuns) load_matrix_x4(b[(i + 1) % 2], x + (x_row + (i + 1) * 32));
      uint32_t a[2][4];
      TENON_UNROLL
      for (int column = 0; column < 2; ++column) {
        uint32_t pairs[2][2];
        quant_fragments<Codes>(pairs, codes[block][column], i % kBlockRuns, zero[column]);
        TENON_UNROLL
        for (int j = 0; j < 4; ++j) a[j / 2][j % 2 * 2 + column] = pairs[j / 2][j % 2];
      }
      const uint32_t(&own)[4] = b[i % 2];
      mma_bf16(part, a[0], {own[0], own[1]});
      mma_bf16(part, a[1], {own[2], own[3]});
      if (i % kBlockRuns + 1 == kBlockRuns) load_block(block);
      if (i % kSegmentRuns + 1 == kSegmentRuns) {
        keep(parts + (own_segment + i / kSegmentRuns) * parts_apart, part);
      }
    }
    load_further();
  }

 private:
  TENON_DEVICE void keep(Shared<float> to, const float (&part)[4]) const {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (there[i % 2]) to[i % 2 * kFewColumns + i / 2 * 8] = part[i];
    }
  }
};

// Of what a gate and an up sum up to, [groups of columns, rows, kFewColumns].
TENON_DEVICE void put_gated(const QuantFactors& q, const FewQuantPlan& plan,
                            const FewQuantColumns& of, Shared<const float> totals) {
  const int rows = static_cast<int>(q.f.rows);
  const int count = rows * kFewColumns;  // of a group
  const auto with_bias = [&](float sum, int column) {
    return q.f.bias ? sum + q.f.bias[column] : sum;
  };
  TENON_UNROLL_BY(1)
  for (int i = static_cast<int>(threadIdx.x); i < count << (plan.across_log - 1);
       i += static_cast<int>(blockDim.x)) {
    const int pair = rows == 1 ? i / kFewColumns : i / count;
    const int column = of.of(2 * pair) + i % kFewColumns;
    if (column >= of.width) continue;
    const int own = i + pair * count;
    const float gate = with_bias(totals[own], column);
    const float up = with_bias(totals[own + count], of.width + column);
    const int64_t row = (i - pair * count) / kFewColumns;
    plan.out.out[row * plan.out.stride + column] = to_bfloat16(activate(plan.out.kind, gate) * up);
  }
}

// Grid: a block's columns.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kWarps * 32, Shape::kBlocks)
    multiply_few_quant(QuantFactors q, FewQuantPlan plan) {
  const int threads = static_cast<int>(blockDim.x);
  const int rows = static_cast<int>(q.f.rows);
  const FewQuantColumns of(q, plan);
  SharedArena arena;
  const int stride = FewQuantX<Shape>::stride_of(plan.chunk);
  const FewQuantX<Shape> x = {arena.take<BFloat16>(rows * stride), stride};
  const FewQuantParts<Shape> parts = {
      arena.take<float>(plan.chunk * Shape::kSegments * rows * plan.columns()), plan.across_log,
      rows};
  const Shared<float> totals = arena.take<float>(parts.elements());
  FewQuantScales<Shape> scales(arena, q, plan);
  FewQuantWarp<Shape> own(q, plan, of, scales, parts, stride);
  const int turn = static_cast<int>(threadIdx.x) / 32 >> plan.across_log;
  for (int first = 0; first < plan.steps; first += plan.chunk) {
    const int count = plan.steps - first < plan.chunk ? plan.steps - first : plan.chunk;
    scales.copy(q, plan, of, first);
    if (first == 0) {
      own.load_block(0);
      own.load_block(1);
      own.load_further();
      let_next_start();
      wait_for_earlier();  // so far nothing was read that kernels write
    }
    x.copy(q.f, first, count);
    __syncthreads();  // x and scales are there, and parts were added up
    TENON_UNROLL_BY(1)
    for (int step = turn; step < count; step += plan.down) {
      own.multiply_step(x.all + step * Shape::kStep, (first + step) * Shape::kSegments,
                        step * Shape::kSegments, q);
    }
    __syncthreads();  // parts are there, and x was used
    const bool last = first + plan.chunk >= plan.steps;
    parts.add_segments(q, scales, first, count);
    __syncthreads();  // pieces are there
    TENON_UNROLL_BY(1)
    for (int i = static_cast<int>(threadIdx.x); i < parts.elements(); i += threads) {
      float before = -0.0f;
      if (first > 0) before = totals[i];
      const float total = parts.total(i, count, before);
      if (!last || plan.gated) {
        totals[i] = total;
        continue;
      }
      const int index = i / kFewColumns;
      const int group = parts.group_of(index);
      put_product(q.f, index - group * rows, of.of(group) + i % kFewColumns, total);
    }
  }
  if (!plan.gated) return;
  __syncthreads();  // totals are there
  put_gated(q, plan, of, totals);
}

}  // namespace tenon::cuda
