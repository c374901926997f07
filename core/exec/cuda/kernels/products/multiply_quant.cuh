// Products with weights of 8 or 4 bits. Bytes come to shared memory as they are; a lane makes the
// fragments that it multiplies out of them, in bf16, which holds them exactly. Behind
// each segment of K (quant_segment) their sum enters the result, times the scale of
// the group it lies in, in f32.
#pragma once

#include "core/exec/cuda/kernels/products/multiply.cuh"
#include "core/exec/cuda/kernels/quant_codes.cuh"

namespace tenon::cuda {

// GatedOutput with a watched pointer.
struct Gated {
  Global<BFloat16> out;
  int stride = 0;
  ActivationKind kind = ActivationKind::silu;
};

struct QuantFactors {
  Factors<BFloat16> f;  // its w is not used
  Global<const uint8_t> w;
  CodeScales scales;
  Global<const uint8_t> zeros;
  int groups, group, rows;
  int segment;    // quant_segment(group)
  int group_log;  // below 0 where a group is no power of 2
  bool aligned;   // whether 16 columns of scales and of zeros are, to 16 bytes

  TENON_DEVICE int64_t factor_at(int group_index, int column) const {
    return static_cast<int64_t>(group_index) * rows + column;
  }
  // In which group element k of a column is.
  TENON_DEVICE int group_of(int k) const { return group_log < 0 ? k / group : k >> group_log; }
};

// A stage of W is a block of each column (quant_block), which serves some steps.
template <typename Codes>
struct QuantStage {
  static constexpr int kStride = 64;  // bytes of a column; lanes that read 16 meet no bank twice
  static constexpr int kSteps = quant_block(Codes::kBits) / kStep;
  static constexpr int kStages = 2;  // while one is multiplied the next one is on its way
  static constexpr uint32_t kColumnBytes = kStages * kStride;
};

// What is taken from a column's integers: as a pair in bf16, 128 more than the zero (4 bits), or as
// a float, 2^23 + 128 more (8 bits). `byte` is read where the matrix has zeros. Floats have none.
template <typename Codes>
TENON_DEVICE uint32_t quant_zero(bool has_zeros, uint8_t byte) {
  if (Codes::kBits == 4) return 0xc300c300u + (has_zeros ? byte : 8u) * 0x10001u;
  const int zero = has_zeros ? static_cast<int8_t>(byte) : 0;
  return 0x4b000080u + static_cast<uint32_t>(zero);
}

// A lane's part of 32 elements of a column along K, as two fragments of 16: the elements number
// `run` · 32 and on of those in its 16 bytes of a block.
template <typename Codes>
TENON_DEVICE void quant_fragments(uint32_t (&b)[2][2], const Pack<uint32_t, 4>& own, int run,
                                  uint32_t zero) {
  if constexpr (Codes::kFloats) {
    // Sign, exponent and mantissa where bf16 has them are the number times 2^-120.
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = permute_bytes(own[run * 2 + i / 2], 0u, i % 2 == 0 ? 0x1404u : 0x3424u);
      b[i / 2][i % 2] =
          multiply_bfloat16_pairs(and_or(pair, 0x80008000u, pair >> 4 & 0x07f007f0u), 0x7b807b80u);
    }
  } else if constexpr (Codes::kBits == 4) {
    // The integer q as the low bits of 128 is 128 + q in bf16.
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      b[i / 2][i % 2] =
          add_bfloat16_pairs(and_or(own[run] >> (4 * i), 0x000f000fu, 0x43004300u), zero);
    }
  } else {
    // The same in f32: q + 128 as the low bits of 2^23.
    const float less = bits_float(zero);
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = own[run * 2 + i / 2] ^ 0x80808080u;
      const uint32_t low = permute_bytes(word, 0x4b000000u, 0x7540u + i % 2 * 2);
      const uint32_t high = permute_bytes(word, 0x4b000000u, 0x7541u + i % 2 * 2);
      b[i / 2][i % 2] = pack_bfloat16(bits_float(low) - less, bits_float(high) - less);
    }
  }
}

// Behind each segment of K its integers' sums enter with its group's scale; pieces are made of
// whole segments.
template <int tile_rows, typename Codes, typename Rows>
TENON_DEVICE void multiply_quant_tile(const QuantFactors& q, const Rows& rows_of,
                                      SharedArena& arena) {
  using T = Tile<tile_rows>;
  using Stage = QuantStage<Codes>;
  const Factors<BFloat16>& f = q.f;
  Shared<BFloat16> x = arena.take<BFloat16>(kStages * tile_rows * kRowStride);
  Shared<uint8_t> w = arena.take<uint8_t>(Stage::kStages * kColumns * Stage::kStride);
  const T tile;
  const int steps = (f.k_in + kStep - 1) / kStep;
  const StraightRows columns_of{tile.column, f.n_out};
  Pieces<BFloat16, tile_rows, kRowStride> x_pieces(f.x, rows_of, f.k_in * 2, f.x_stride);
  Pieces<uint8_t, kColumns, Stage::kStride, Stage::kStride> w_pieces(q.w, columns_of, f.w_stride,
                                                                     f.w_stride);
  const auto fill = [&](int step, int stage) {
    if (step < steps) {
      x_pieces.copy(x + stage * tile_rows * kRowStride);
      if (step % Stage::kSteps == 0) {
        w_pieces.copy(w + step / Stage::kSteps % Stage::kStages * kColumns * Stage::kStride);
      }
    }
    copy_async_commit();
  };
  const int first = tile.column + tile.warp_column;
  float totals[T::kTiles][4] = {};
  float sums[T::kTiles][4] = {};
  float part[T::kTiles][4] = {};
  uint32_t zero[T::kTiles] = {};
  Pack<uint32_t, 4> own[T::kTiles] = {};
  for (int step = 0; step < kStages - 1; ++step) fill(step, step);
  int stage = 0;
  int filled = kStages - 1;
  int group = 0;
  int group_left = q.group;
  int segment_left = 0;
  int piece_left = kPieceElements;
  const auto multiply_step = [&](int step, int run) {
    copy_async_wait<kStages - 2>();
    __syncthreads();  // this stage is there, and the one that is filled next was used
    fill(step + kStages - 1, filled);
    if (run == 0) {
      const Shared<uint8_t> block =
          w +
          (step / Stage::kSteps % Stage::kStages * kColumns + tile.warp_column) * Stage::kStride;
      TENON_UNROLL
      for (int n = 0; n < T::kTiles; ++n) {
        own[n] =
            load_words<4>(block + ((n * 8 + tile.lane / 4) * Stage::kStride + tile.lane % 4 * 16));
      }
    }
    if (segment_left == 0) {
      segment_left = q.segment;
      TENON_UNROLL
      for (int n = 0; n < T::kTiles; ++n) {
        const int column = first + n * 8 + tile.lane / 4;
        const bool there = q.zeros && column < f.n_out;
        zero[n] = quant_zero<Codes>(
            there, there ? uint8_t{q.zeros[q.factor_at(group, column)]} : uint8_t{0});
      }
    }
    const Shared<BFloat16> rows = x + (stage * tile_rows + tile.warp_row) * kRowStride;
    uint32_t a[2][4];
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) load_a(a[i], rows, tile.lane, i * 16);
    TENON_UNROLL
    for (int n = 0; n < T::kTiles; ++n) {
      uint32_t b[2][2];
      quant_fragments<Codes>(b, own[n], run, zero[n]);
      mma_bf16(part[n], a[0], b[0]);
      mma_bf16(part[n], a[1], b[1]);
    }
    stage = next_stage(stage);
    filled = next_stage(filled);
    segment_left -= kStep;
    group_left -= kStep;
    piece_left -= kStep;
    const bool piece_ends = piece_left == 0 || step + 1 == steps;
    if (segment_left != 0 && !piece_ends) return;
    TENON_UNROLL
    for (int n = 0; n < T::kTiles; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column = first + n * 8 + tile.lane % 4 * 2 + i % 2;
        if (column >= f.n_out) continue;
        sums[n][i] = fmaf(q.scales.at<Codes>(q.factor_at(group, column)), part[n][i], sums[n][i]);
        part[n][i] = 0.0f;
      }
    }
    if (group_left == 0) {
      ++group;
      group_left = q.group;
    }
    if (!piece_ends) return;
    add_piece(totals, sums);
    piece_left = kPieceElements;
  };
  for (int step = 0; step < steps; step += Stage::kSteps) {
    TENON_UNROLL
    for (int run = 0; run < Stage::kSteps; ++run) {
      if (step + run < steps) multiply_step(step + run, run);
    }
  }
  TENON_UNROLL
  for (int n = 0; n < T::kTiles; ++n) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      put_product(f, rows_of.to(tile.warp_row + tile.lane / 4 + i / 2 * 8),
                  first + n * 8 + tile.lane % 4 * 2 + i % 2, totals[n][i]);
    }
  }
}

// Grid: columns, rows of an expert, experts.
template <int tile_rows, typename Codes>
__global__ void __launch_bounds__(kMultiplyThreads, 2) multiply_experts_quant(QuantFactors q) {
  let_next_start();
  wait_for_earlier();
  const int64_t first = static_cast<int64_t>(blockIdx.y) * tile_rows;
  if (expert_is_done(q.f.by, first)) return;
  SharedArena arena;
  const ChosenRows rows = chosen_rows<tile_rows>(arena, q.f.by, first);
  const int64_t skipped = static_cast<int64_t>(blockIdx.z) * q.f.n_out;
  q.w = q.w + skipped * q.f.w_stride;
  q.scales.skip(skipped);
  if (q.zeros) q.zeros = q.zeros + skipped;
  if (q.f.bias) q.f.bias = q.f.bias + skipped;
  multiply_quant_tile<tile_rows, Codes>(q, rows, arena);
}

}  // namespace tenon::cuda
