// Products with weights of 8 or 4 bits. Bytes come to shared memory as they are; a lane makes the
// fragments that it multiplies out of them, as integers in bf16, which holds them exactly. Behind
// each group of K the sum of its integers enters the result, times its scale, in f32.
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
  static constexpr int kStride = kBytes + 16;      // keeps pieces of 16 bytes aligned
};

// Two neighbours along K, k even, of a column's bytes, less the zero.
template <int bits>
TENON_DEVICE uint32_t quant_pair(Shared<uint8_t> column, int k, int zero) {
  if (bits == 4) {
    const int both = uint8_t{column[k / 2]};
    return pack_bfloat16(static_cast<float>((both & 15) - zero),
                         static_cast<float>((both >> 4) - zero));
  }
  const Pack<uint8_t, 2> pair = load_pack<2>(column + k);
  return pack_bfloat16(static_cast<float>(static_cast<int8_t>(pair[0]) - zero),
                       static_cast<float>(static_cast<int8_t>(pair[1]) - zero));
}

// The first of a group's steps reads zeros, the last one enters scales; rows of `tile.column`.
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
  Pieces<uint8_t, kColumns, Stage::kStride> w_pieces(q.w, columns_of, f.w_stride, f.w_stride);
  const auto fill = [&](int step, int stage) {
    if (step < steps) {
      x_pieces.copy(x + stage * tile_rows * kRowStride);
      w_pieces.copy(w + stage * kColumns * Stage::kStride);
    }
    copy_async_commit();
  };
  const int first = tile.column + tile.warp_column;
  float sums[T::kTiles][4] = {};
  float part[T::kTiles][4] = {};
  int zero[T::kTiles] = {};
  for (int step = 0; step < kStages - 1; ++step) fill(step, step);
  int stage = 0;
  int filled = kStages - 1;
  int group = 0;
  int k_left = 0;  // of the group
  for (int step = 0; step < steps; ++step) {
    copy_async_wait<kStages - 2>();
    __syncthreads();  // this stage is there, and the one that is filled next was used
    fill(step + kStages - 1, filled);
    if (k_left == 0) {
      k_left = q.group;
      TENON_UNROLL
      for (int n = 0; n < T::kTiles; ++n) {
        const int column = first + n * 8 + tile.lane / 4;
        zero[n] = bits == 4 ? 8 : 0;
        if (q.zeros && column < f.n_out) {
          const uint8_t byte = q.zeros[static_cast<int64_t>(column) * q.groups + group];
          zero[n] = bits == 4 ? byte : static_cast<int8_t>(byte);
        }
        TENON_UNROLL
        for (int i = 0; i < 4; ++i) part[n][i] = 0.0f;
      }
    }
    const Shared<BFloat16> rows = x + (stage * tile_rows + tile.warp_row) * kRowStride;
    TENON_UNROLL
    for (int k = 0; k < kStep; k += 16) {
      uint32_t a[4];
      load_a(a, rows, tile.lane, k);
      TENON_UNROLL
      for (int n = 0; n < T::kTiles; ++n) {
        const Shared<uint8_t> column =
            w + (stage * kColumns + tile.warp_column + n * 8 + tile.lane / 4) * Stage::kStride;
        const int at = k + tile.lane % 4 * 2;
        mma_bf16(
            part[n], a,
            {quant_pair<bits>(column, at, zero[n]), quant_pair<bits>(column, at + 8, zero[n])});
      }
    }
    stage = next_stage(stage);
    filled = next_stage(filled);
    k_left -= kStep;
    if (k_left != 0 && step + 1 < steps) continue;
    TENON_UNROLL
    for (int n = 0; n < T::kTiles; ++n) {
      TENON_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int column = first + n * 8 + tile.lane % 4 * 2 + i % 2;
        if (column >= f.n_out) continue;
        const Half scale = q.scales[static_cast<int64_t>(column) * q.groups + group];
        sums[n][i] = fmaf(to_float(scale), part[n][i], sums[n][i]);
      }
    }
    ++group;
  }
  TENON_UNROLL
  for (int n = 0; n < T::kTiles; ++n) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      put_product(f, rows_of.to(tile.warp_row + tile.lane / 4 + i / 2 * 8),
                  first + n * 8 + tile.lane % 4 * 2 + i % 2, sums[n][i]);
    }
  }
}

template <int tile_rows, int bits>
__global__ void __launch_bounds__(kMultiplyThreads, 3) multiply_quant(QuantFactors q) {
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
