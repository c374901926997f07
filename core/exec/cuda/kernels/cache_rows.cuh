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

}  // namespace tenon::cuda
