// Products with weights of 8 or 4 bits. Bytes come to shared memory as they are; a lane makes the
// fragments that it multiplies out of them, as integers in bf16, which holds them exactly. Behind
// each group of K its sum, less the zero point times the sum of x, enters the result times its
// scale, in f32.
#pragma once

#include "core/exec/cuda/kernels/multiply.cuh"

namespace tenon::cuda {

struct QuantFactors {
  Factors<BFloat16> f;  // its w is not used
  Global<const uint8_t> w;
  Global<const Half> scales;
  Global<const uint8_t> zeros;
  int groups, group;
};

template <int bits>
struct QuantStage {
  static constexpr int kBytes = kStep * bits / 8;  // of a column, for a step
  // Keeps pieces of 16 bytes aligned, and lanes that read 4 or 8 bytes meet no bank twice.
  static constexpr int kStride = kBytes + (bits == 4 ? 32 : 64);
};

// What a column's integers are too large by: their zero point, and what multiplying adds to them.
template <int bits>
TENON_DEVICE float quant_zero(bool has_zeros, uint8_t byte) {
  if (bits == 4) return static_cast<float>(128 + (has_zeros ? byte : 8));
  return static_cast<float>(has_zeros ? static_cast<int8_t>(byte) : 0);
}

// 32 elements of a column along K as two B fragments: those of a lane, which stand side by side
// (quant_place) from `own` on. Integers of 4 bits come as 128 + q, whose low bits they are in bf16.
template <int bits>
TENON_DEVICE void quant_fragments(uint32_t (&b)[2][2], Shared<uint8_t> own) {
  if constexpr (bits == 4) {
    const uint32_t word = load_words<1>(own)[0];
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      b[i / 2][i % 2] = and_or(word >> (4 * i), 0x000f000fu, 0x43004300u);
    }
  } else {
    // In f32, q + 128 is the low bits of 2^23.
    const Pack<uint32_t, 2> words = load_words<2>(own);
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = words[i / 2] ^ 0x80808080u;
      const uint32_t low = permute_bytes(word, 0x4b000000u, 0x7540u + i % 2 * 2);
      const uint32_t high = permute_bytes(word, 0x4b000000u, 0x7541u + i % 2 * 2);
      b[i / 2][i % 2] = pack_bfloat16(bits_float(low) - 8388736.0f, bits_float(high) - 8388736.0f);
    }
  }
}

// Sums over a group: of x times integers, and of x, which zero points are taken away with.
template <int bits, int tiles>
struct GroupSums {
  float sums[tiles][4];
  float x[4];

  TENON_DEVICE void begin() {
    TENON_UNROLL
    for (int n = 0; n < tiles; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) sums[n][i] = 0.0f;
    }
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) x[i] = 0.0f;
  }
  // A product with ones, so that the order is that of the other sums.
  TENON_DEVICE void add_x(const uint32_t (&a)[4]) { mma_bf16(x, a, {0x3f803f80u, 0x3f803f80u}); }
  // Columns `i` of the lane's pairs in tile n: to += scale · (sums - zero · x).
  TENON_DEVICE void enter(float (&to)[4], int n, int i, float scale, float zero) const {
    TENON_UNROLL
    for (int at = i; at < 4; at += 2) {
      to[at] = fmaf(scale, fmaf(-zero, x[at], sums[n][at]), to[at]);
    }
  }
};

// Behind each group, and at the end of a piece of K, the integers' sums enter with the group's
// scale.
template <int tile_rows, int bits, typename Rows>
TENON_DEVICE void multiply_quant_tile(const QuantFactors& q, const Rows& rows_of,
                                      SharedArena& arena) {
  using T = Tile<tile_rows>;
  using Stage = QuantStage<bits>;
  const Factors<BFloat16>& f = q.f;
  Shared<BFloat16> x = arena.take<BFloat16>(kStages * tile_rows * kRowStride);
  Shared<uint8_t> w = arena.take<uint8_t>(kStages * kColumns * Stage::kStride);
  const T tile;
  const int steps = (f.k_in + kStep - 1) / kStep;
  const StraightRows columns_of{tile.column, f.n_out};
  Pieces<BFloat16, tile_rows, kRowStride> x_pieces(f.x, rows_of, f.k_in * 2, f.x_stride);
  Pieces<uint8_t, kColumns, Stage::kStride, Stage::kBytes> w_pieces(q.w, columns_of, f.w_stride,
                                                                    f.w_stride);
  const auto fill = [&](int step, int stage) {
    if (step < steps) {
      x_pieces.copy(x + stage * tile_rows * kRowStride);
      w_pieces.copy(w + stage * kColumns * Stage::kStride);
    }
    copy_async_commit();
  };
  const int first = tile.column + tile.warp_column;
  float totals[T::kTiles][4] = {};
  float sums[T::kTiles][4] = {};
  GroupSums<bits, T::kTiles> part;
  part.begin();
  for (int step = 0; step < kStages - 1; ++step) fill(step, step);
  int stage = 0;
  int filled = kStages - 1;
  int group = 0;
  int k_left = 0;  // of the group
  int piece_left = kPieceElements;
  for (int step = 0; step < steps; ++step) {
    copy_async_wait<kStages - 2>();
    __syncthreads();  // this stage is there, and the one that is filled next was used
    fill(step + kStages - 1, filled);
    if (k_left == 0) k_left = q.group;
    const Shared<BFloat16> rows = x + (stage * tile_rows + tile.warp_row) * kRowStride;
    uint32_t a[2][4];
    TENON_UNROLL
    for (int i = 0; i < 2; ++i) {
      load_a(a[i], rows, tile.lane, i * 16);
      part.add_x(a[i]);
    }
    TENON_UNROLL
    for (int n = 0; n < T::kTiles; ++n) {
      const int column = stage * kColumns + tile.warp_column + n * 8 + tile.lane / 4;
      uint32_t b[2][2];
      quant_fragments<bits>(b, w + (column * Stage::kStride + tile.lane % 4 * bits));
      mma_bf16(part.sums[n], a[0], b[0]);
      mma_bf16(part.sums[n], a[1], b[1]);
    }
    stage = next_stage(stage);
    filled = next_stage(filled);
    k_left -= kStep;
    piece_left -= kStep;
    const bool piece_ends = piece_left == 0 || step + 1 == steps;
    if (k_left != 0 && !piece_ends) continue;
    TENON_UNROLL
    for (int n = 0; n < T::kTiles; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int column = first + n * 8 + tile.lane % 4 * 2 + i;
        if (column >= f.n_out) continue;
        const int64_t at = static_cast<int64_t>(column) * q.groups + group;
        const Half scale = q.scales[at];
        part.enter(sums[n], n, i, to_float(scale),
                   quant_zero<bits>(static_cast<bool>(q.zeros),
                                    q.zeros ? uint8_t{q.zeros[at]} : uint8_t{0}));
      }
    }
    part.begin();
    if (k_left == 0) ++group;
    if (!piece_ends) continue;
    add_piece(totals, sums);
    piece_left = kPieceElements;
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

template <int tile_rows, int bits>
__global__ void __launch_bounds__(kMultiplyThreads, 2) multiply_quant(QuantFactors q) {
  SharedArena arena;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * tile_rows;
  multiply_quant_tile<tile_rows, bits>(q, StraightRows{first, static_cast<int64_t>(q.f.rows)},
                                       arena);
}

// Grid: columns, rows of an expert, experts.
template <int tile_rows, int bits>
__global__ void __launch_bounds__(kMultiplyThreads, 2) multiply_experts_quant(QuantFactors q) {
  const int64_t first = static_cast<int64_t>(blockIdx.y) * tile_rows;
  if (expert_is_done(q.f.by, first)) return;
  SharedArena arena;
  const ChosenRows rows = chosen_rows<tile_rows>(arena, q.f.by, first);
  const int64_t skipped = static_cast<int64_t>(blockIdx.z) * q.f.n_out;
  q.w = q.w + skipped * q.f.w_stride;
  q.scales = q.scales + skipped * q.groups;
  if (q.zeros) q.zeros = q.zeros + skipped * q.groups;
  if (q.f.bias) q.f.bias = q.f.bias + skipped;
  multiply_quant_tile<tile_rows, bits>(q, rows, arena);
}

}  // namespace tenon::cuda
