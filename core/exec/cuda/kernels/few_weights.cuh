// What products of few rows keep in shared memory, and how a warp multiplies with it: weights in
// bf16 as they are, those of 8 and 4 bits as integers in bf16, which holds them exactly, with a
// group's scale in f32 behind its sum.
#pragma once

#include "core/exec/cuda/kernels/multiply_quant.cuh"

namespace tenon::cuda {

// How much of K a stage has, how many stages there are (all but one are on their way), and in what
// runs of K groups begin and end. Of few rows a warp has x's whole piece at once.
template <int bit_count, int step_elements, int stage_count, int run_elements, bool has_whole_x>
struct FewShape {
  static constexpr int kColumns = 16;
  static constexpr int kTiles = kColumns / 8;
  static constexpr int kBits = bit_count;  // 16: bf16
  static constexpr int kStep = step_elements;
  static constexpr int kStages = stage_count;
  static constexpr int kRun = run_elements;  // divides kStep
  static constexpr bool kWholeX = has_whole_x;
  // Elements: rows meet no bank twice.
  static constexpr int kXStride = (kWholeX ? kPieceElements : kStep) + 8;
  static constexpr int kXStages = kWholeX ? 1 : kStages;
  static constexpr int kWBytes = kStep * kBits / 8;  // of a column
  static constexpr int kWPieces = kWBytes / 16;
  // Columns meet no bank twice: those of 8 bits are read in pieces of 8 bytes.
  static constexpr int kWStride = kWBytes + (kBits == 8 ? 32 : 16);
  static constexpr int kWStage = kColumns * kWStride;  // bytes
  // Of a piece of K, the first and the last one not whole.
  static constexpr int kGroups = kPieceElements / 32 + 1;

  static TENON_DEVICE int next(int stage) { return stage + 1 < kStages ? stage + 1 : 0; }
  // Of shared memory, for a warp.
  static constexpr int bytes(int rows) {
    const int scales = kBits == 16 ? 0 : kColumns * kGroups * 3;
    return kXStages * rows * kXStride * 2 + kStages * kWStage + scales;
  }
};

// A warp's. Of x there is room for as many rows as the step has.
template <typename Shape>
struct FewStages {
  Shared<BFloat16> zeros;  // [8]: rows that are not there
  Shared<BFloat16> x;
  Shared<uint8_t> w;
  int x_elements;

  TENON_DEVICE FewStages(SharedArena& arena, int warp, int warps, int rows)
      : zeros(arena.take<BFloat16>(8)),
        x(arena.take<BFloat16>(warps * Shape::kXStages * rows * Shape::kXStride)),
        w(arena.take<uint8_t>(warps * Shape::kStages * Shape::kWStage)),
        x_elements(rows * Shape::kXStride) {
    x = x + warp * Shape::kXStages * x_elements;
    w = w + warp * Shape::kStages * Shape::kWStage;
  }
  // Of the piece's step.
  TENON_DEVICE Shared<BFloat16> x_of(int stage, int step) const {
    return x + (Shape::kWholeX ? step * Shape::kStep : stage * x_elements);
  }
  TENON_DEVICE Shared<uint8_t> w_of(int stage) const { return w + stage * Shape::kWStage; }
};

// Columns that are not there are the last one once more, and are not used.
TENON_DEVICE int column_there(const Factors<BFloat16>& f, int column) {
  return column < f.n_out ? column : f.n_out - 1;
}

// A warp's sums over one piece of K.
template <typename Shape, int bits = Shape::kBits>
struct FewWeights {
  static constexpr int kTiles = Shape::kTiles;
  float sums[kTiles][4];

  TENON_DEVICE FewWeights(const QuantFactors& factors, SharedArena& arena, int first, int own_lane,
                          int warp, int warps, Shared<uint8_t> first_stage)
      : q_(factors),
        column_(first),
        lane_(own_lane),
        scales_(arena.take<Half>(warps * kEntries)),
        zeros_(arena.take<uint8_t>(warps * kEntries)),
        stage_(first_stage) {
    scales_ = scales_ + warp * kEntries;
    zeros_ = zeros_ + warp * kEntries;
  }
  TENON_DEVICE void begin_piece(int begin, int length) {
    const int first = begin / q_.group;
    groups_ = (begin + length - 1) / q_.group - first + 1;
    left_ = (first + 1) * q_.group - begin;
    constexpr int kLanes = 32 / Shape::kColumns;
    const int own = lane_ / kLanes;
    const int own_group = lane_ % kLanes;
    const int64_t at = int64_t{column_there(q_.f, column_ + own)} * q_.groups + first + own_group;
    const Global<const Half> from = q_.scales + at;
    TENON_UNROLL_BY(4)
    for (int i = 0; i < groups_ - own_group; i += kLanes) {
      scales_[(i + own_group) * Shape::kColumns + own] = Half(from[i]);
    }
    if (q_.zeros) {
      const Global<const uint8_t> zero_from = q_.zeros + at;
      TENON_UNROLL_BY(4)
      for (int i = 0; i < groups_ - own_group; i += kLanes) {
        zeros_[(i + own_group) * Shape::kColumns + own] = uint8_t{zero_from[i]};
      }
    }
    __syncwarp();
    group_ = 0;
    clear_sums(sums);
    begin_group();
  }
  TENON_DEVICE void enter(Shared<uint8_t> of) {
    stage_ = of + (lane_ / 4 * Shape::kWStride + lane_ % 4 * bits);
  }
  // A run of K. Behind the last group a stage has zeros.
  TENON_DEVICE void multiply(const uint32_t (&a)[Shape::kRun / 16][4], int k) {
    if (left_ <= 0 && group_ + 1 < groups_) {
      end_group();
      ++group_;
      left_ = q_.group;
      begin_group();
    }
    left_ -= Shape::kRun;
    TENON_UNROLL
    for (int i = 0; i < Shape::kRun / 16; i += 2) {
      TENON_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        uint32_t b[2][2];
        quant_fragments<bits>(b, stage_ + (n * 8 * Shape::kWStride + (k + i * 16) * bits / 8),
                              zero_[n]);
        mma_bf16(part_[n], a[i], b[0]);
        mma_bf16(part_[n], a[i + 1], b[1]);
      }
    }
  }
  TENON_DEVICE void end_piece() { end_group(); }

 private:
  static constexpr int kEntries = Shape::kColumns * Shape::kGroups;

  TENON_DEVICE void begin_group() {
    TENON_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      const int own = group_ * Shape::kColumns + n * 8 + lane_ / 4;
      zero_[n] = quant_zero<bits>(static_cast<bool>(q_.zeros), q_.zeros ? uint8_t{zeros_[own]} : 0);
    }
    clear_sums(part_);
  }
  TENON_DEVICE void end_group() {
    TENON_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      const Pack<Half, 2> two =
          load_pack<2>(scales_ + (group_ * Shape::kColumns + n * 8 + lane_ % 4 * 2));
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) sums[n][i] = fmaf(to_float(two[i % 2]), part_[n][i], sums[n][i]);
    }
  }

  const QuantFactors& q_;
  int column_, lane_;
  Shared<Half> scales_;  // [kGroups, columns]
  Shared<uint8_t> zeros_;
  Shared<uint8_t> stage_;
  int group_ = 0;  // of the piece
  int groups_ = 0;
  int left_ = 0;  // of the group, along K
  uint32_t zero_[kTiles];
  float part_[kTiles][4];
};

template <typename Shape>
struct FewWeights<Shape, 16> {
  static constexpr int kTiles = Shape::kTiles;
  float sums[kTiles][4];

  TENON_DEVICE FewWeights(const QuantFactors&, SharedArena&, int, int own_lane, int, int,
                          Shared<uint8_t> first)
      : lane_(own_lane), stage_(first) {}
  TENON_DEVICE void begin_piece(int, int) { clear_sums(sums); }
  TENON_DEVICE void enter(Shared<uint8_t> of) {
    stage_ = of + ((lane_ / 16 * 8 + lane_ % 8) * Shape::kWStride + lane_ / 8 % 2 * 16);
  }
  TENON_DEVICE void multiply(const uint32_t (&a)[Shape::kRun / 16][4], int k) {
    TENON_UNROLL
    for (int i = 0; i < Shape::kRun / 16; ++i) {
      TENON_UNROLL
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t pair[4];
        load_matrix_x4(pair, stage_ + (n * 8 * Shape::kWStride + (k + i * 16) * 2));
        mma_bf16(sums[n], a[i], {pair[0], pair[1]});
        mma_bf16(sums[n + 1], a[i], {pair[2], pair[3]});
      }
    }
  }
  TENON_DEVICE void end_piece() {}

 private:
  int lane_;
  Shared<uint8_t> stage_;
};

}  // namespace tenon::cuda
