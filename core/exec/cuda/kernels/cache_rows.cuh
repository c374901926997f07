// Rows of i8 and i4 in the cache, as <tenon/attention.h> defines them: elements, then a bf16 scale,
// of i4 a bf16 least value behind it. Rows begin at even bytes.
#pragma once

#include <tenon/cuda/machine.h>

#include "core/exec/cuda/kernels/elements.cuh"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

TENON_DEVICE BFloat16 get_bf16(Global<const uint8_t> from) {
  const Pack<uint8_t, 2> two = load_pack<2>(from);
  return {static_cast<uint16_t>(two[0] | two[1] << 8)};
}
TENON_DEVICE void put_bf16(Global<uint8_t> to, BFloat16 x) {
  const Pack<uint8_t, 2> two = {
      {static_cast<uint8_t>(x.bits & 255), static_cast<uint8_t>(x.bits >> 8)}};
  store_pack(to, two);
}

// What stands behind a row's elements.
struct CacheScale {
  float scale, least;
  TENON_DEVICE CacheScale(Global<const uint8_t> row, CacheType type, int scale_at)
      : scale(to_float(get_bf16(row + scale_at))), least(0.0f) {
    if (type == CacheType::i4) least = to_float(get_bf16(row + (scale_at + 2)));
  }
  TENON_DEVICE float operator()(int code) const { return static_cast<float>(code) * scale + least; }
};

// Eight elements from `first` on, a multiple of 8, as bf16.
TENON_DEVICE Pack<BFloat16, 8> quantised_piece(Global<const uint8_t> row, CacheType type,
                                               int scale_at, int first) {
  const CacheScale scale(row, type, scale_at);
  Pack<BFloat16, 8> piece;
  if (type == CacheType::i8) {
    TENON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Pack<uint8_t, 2> two = load_pack<2>(row + (first + 2 * i));
      piece[2 * i] = to_bfloat16(scale(static_cast<int8_t>(two[0])));
      piece[2 * i + 1] = to_bfloat16(scale(static_cast<int8_t>(two[1])));
    }
    return piece;
  }
  TENON_UNROLL
  for (int i = 0; i < 2; ++i) {
    const Pack<uint8_t, 2> two = load_pack<2>(row + (first / 2 + 2 * i));
    TENON_UNROLL
    for (int n = 0; n < 4; ++n) {
      piece[4 * i + n] = to_bfloat16(scale(two[n / 2] >> (n % 2 * 4) & 15));
    }
  }
  return piece;
}

// Rows of a plane, element by element.
template <typename T>
struct PlainRows {
  Global<const T> plane;
  int dim;
  TENON_DEVICE float operator()(int64_t row, int i) const { return get(plane, row * dim + i); }
};
struct QuantisedRows {
  Global<const uint8_t> plane;
  CacheType type;
  int row_bytes, scale_at;
  TENON_DEVICE float operator()(int64_t row, int i) const {
    const Global<const uint8_t> own = plane + row * row_bytes;
    const CacheScale scale(own, type, scale_at);
    if (type == CacheType::i8) return scale(static_cast<int8_t>(uint8_t{own[i]}));
    return scale(uint8_t{own[i / 2]} >> (i % 2 * 4) & 15);
  }
};

TENON_DEVICE bool is_finite(float x) {
  return fabsf(x) < INFINITY;
}

// The largest bf16 not above x.
TENON_DEVICE BFloat16 bfloat16_below(float x) {
  const BFloat16 near = to_bfloat16(x);
  if (!(to_float(near) > x)) return near;
  const int step = to_float(near) > 0.0f ? -1 : 1;
  return {static_cast<uint16_t>(near.bits + step)};
}

TENON_DEVICE uint8_t quantised(float x, float scale, float least, float lowest, float highest) {
  if (!(scale > 0.0f)) return 0;
  const float whole = rintf((x - least) / scale);
  return static_cast<uint8_t>(static_cast<int>(fminf(fmaxf(whole, lowest), highest)));
}

// K or V of a step's rows to their places: a warp a row. Grid: rows · kv_heads.
__global__ void store_quantised_kernel(Global<const float> from, Global<const uint32_t> blocks,
                                       Global<const uint32_t> offsets, Global<uint8_t> cache,
                                       CacheShape shape, int row_bytes, int scale_at) {
  const int lane = static_cast<int>(threadIdx.x);
  const int dim = shape.head_dim;
  const int64_t row = blockIdx.x / static_cast<uint32_t>(shape.kv_heads);
  const int64_t head = blockIdx.x % static_cast<uint32_t>(shape.kv_heads);
  const int64_t block = uint32_t{blocks[row]};
  const int64_t offset = uint32_t{offsets[row]};
  const int64_t place = (block * shape.kv_heads + head) * shape.block_tokens + offset;
  const Global<uint8_t> to = cache + place * row_bytes;
  const Global<const float> x = from + static_cast<int64_t>(blockIdx.x) * dim;
  float least = INFINITY, most = -INFINITY;
  bool finite = true;
  for (int i = lane; i < dim; i += 32) {
    const float own = x[i];
    finite = finite && is_finite(own);
    least = fminf(least, own);
    most = fmaxf(most, own);
  }
  finite = __all_sync(kAllLanes, finite);
  for (int with = 16; with > 0; with /= 2) {
    least = fminf(least, __shfl_xor_sync(kAllLanes, least, with));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, with));
  }
  const bool bytes = shape.type == CacheType::i8;
  BFloat16 low = {0};
  if (!bytes) low = bfloat16_below(least);
  BFloat16 scale = to_bfloat16(bytes ? (-least < most ? most : -least) / 127.0f
                                     : (most - to_float(low)) / 15.0f);
  if (!finite || !is_finite(to_float(scale)) || !is_finite(to_float(low))) {
    scale = to_bfloat16(NAN);
    low = {0};
  }
  const float s = to_float(scale);
  const float l = to_float(low);
  for (int i = lane; i < scale_at; i += 32) {
    if (bytes) {
      to[i] = i < dim ? quantised(x[i], s, 0.0f, -127.0f, 127.0f) : uint8_t{0};
      continue;
    }
    const int first = 2 * i < dim ? quantised(x[2 * i], s, l, 0.0f, 15.0f) : 0;
    const int second = 2 * i + 1 < dim ? quantised(x[2 * i + 1], s, l, 0.0f, 15.0f) : 0;
    to[i] = static_cast<uint8_t>(first | second << 4);
  }
  if (lane != 0) return;
  put_bf16(to + scale_at, scale);
  if (!bytes) put_bf16(to + (scale_at + 2), low);
}

}  // namespace tenon::cuda
