// Elements of arrays that are f32 or bf16.
#pragma once

#include <tenon/cuda/machine.h>

namespace tenon::cuda {

inline constexpr int kRowThreads = 128;

TENON_DEVICE void put(Global<float> to, int64_t i, float x) {
  to[i] = x;
}
TENON_DEVICE void put(Global<BFloat16> to, int64_t i, float x) {
  to[i] = to_bfloat16(x);
}
template <typename T>
TENON_DEVICE float get(Global<const T> from, int64_t i) {
  const T x = from[i];
  return to_float(x);
}

// Quad q of a row is its elements 4q … 4q + 3, zeros behind its end. Where all rows of a launch are
// `whole` in quads, of a width that is a multiple of 4 and aligned, they move at once.
using Quad = Pack<float, 4>;

TENON_DEVICE Quad load_whole_quad(Global<const float> from) {
  return load_pack<4>(from);
}
TENON_DEVICE Quad load_whole_quad(Global<const BFloat16> from) {
  const Pack<uint32_t, 2> words = load_words<2>(from);
  return {{bits_float(words[0] << 16), bits_float(words[0] & 0xffff0000u),
           bits_float(words[1] << 16), bits_float(words[1] & 0xffff0000u)}};
}
template <typename T>
TENON_DEVICE Quad load_quad(Global<const T> row, int quad, int width, bool whole) {
  const int first = 4 * quad;
  Quad x = {};
  if (whole) {
    if (first < width) x = load_whole_quad(row + first);
    return x;
  }
  TENON_UNROLL for (int e = 0; e < 4; ++e) {
    if (first + e < width) x[e] = get(row, first + e);
  }
  return x;
}

TENON_DEVICE void store_whole_quad(Global<float> to, const Quad& x) {
  store_pack(to, x);
}
TENON_DEVICE void store_whole_quad(Global<BFloat16> to, const Quad& x) {
  store_pack(to, Pack<BFloat16, 4>{
                     {to_bfloat16(x[0]), to_bfloat16(x[1]), to_bfloat16(x[2]), to_bfloat16(x[3])}});
}
template <typename T>
TENON_DEVICE void store_quad(Global<T> row, int quad, int width, bool whole, const Quad& x) {
  const int first = 4 * quad;
  if (whole) {
    if (first < width) store_whole_quad(row + first, x);
    return;
  }
  TENON_UNROLL for (int e = 0; e < 4; ++e) {
    if (first + e < width) put(row, first + e, x[e]);
  }
}

}  // namespace tenon::cuda
