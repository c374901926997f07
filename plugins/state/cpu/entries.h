// The kernels, compiled once for each instruction set.
#pragma once

#include <tenon/sdk/simd.h>

#include "plugins/state/cpu/kernels.h"

namespace tenon::state_cpu {
namespace {

namespace simd = sdk::simd;
using simd::F32;
using simd::kLanes;

// All lanes, or the first `count` where those are fewer.
inline F32 load_up_to(const float* from, uint32_t count) {
  return count >= kLanes ? simd::load(from) : simd::load_first(from, count);
}
inline void store_up_to(float* to, F32 value, uint32_t count) {
  if (count >= kLanes) {
    simd::store(to, value);
  } else {
    simd::store_first(to, value, count);
  }
}

void convolve(const Convolution& row, uint32_t first, uint32_t last) {
  for (uint32_t channel = first; channel < last; channel += kLanes) {
    const uint32_t left = last - channel;
    F32 sum = load_up_to(row.bias + channel, left);
    for (uint32_t j = 0; j < row.width; ++j) {
      const float* weights = row.weights + uint64_t{j} * row.channels + channel;
      sum = simd::fma(load_up_to(weights, left), load_up_to(row.taps[j] + channel, left), sum);
    }
    store_up_to(row.out + channel, simd::silu(sum), left);
  }
}

// Rows of a head's state that are worked on side by side: one alone would wait for its own sums.
constexpr uint32_t kSideBySide = 4;

template <uint32_t rows>
inline void scan_rows(const HeadRow& head, uint32_t p) {
  F32 input[rows], sums[rows];
  for (uint32_t r = 0; r < rows; ++r) {
    input[r] = simd::set1(head.delta * head.x[p + r]);
    sums[r] = simd::zero();
  }
  const F32 decay = simd::set1(head.decay);
  for (uint32_t n = 0; n < head.state; n += kLanes) {
    const uint32_t left = head.state - n;
    const F32 b = load_up_to(head.b + n, left), c = load_up_to(head.c + n, left);
#pragma GCC unroll 4
    for (uint32_t r = 0; r < rows; ++r) {
      const uint64_t at = uint64_t{p + r} * head.state + n;
      const F32 old = head.from == nullptr ? simd::zero() : load_up_to(head.from + at, left);
      const F32 kept = simd::fma(decay, old, simd::mul(input[r], b));
      store_up_to(head.to + at, kept, left);
      sums[r] = simd::fma(kept, c, sums[r]);
    }
  }
  for (uint32_t r = 0; r < rows; ++r) {
    head.y[p + r] = simd::reduce_add(sums[r]) + head.d * head.x[p + r];
  }
}

void scan_head(const HeadRow& head) {
  uint32_t p = 0;
  for (; p + kSideBySide <= head.dim; p += kSideBySide) scan_rows<kSideBySide>(head, p);
  for (; p < head.dim; ++p) scan_rows<1>(head, p);
}

void scan_channels(const ChannelRow& row) {
  for (uint32_t i = 0; i < row.count; i += kLanes) {
    const uint32_t left = row.count - i;
    const F32 delta = load_up_to(row.delta + i, left), x = load_up_to(row.x + i, left);
    const F32 input = simd::mul(delta, x);
    F32 sum = simd::mul(load_up_to(row.d + i, left), x);
    for (uint32_t n = 0; n < row.state; ++n) {
      const F32 decay = simd::exp(simd::mul(delta, load_up_to(row.a + n * row.stride + i, left)));
      const F32 old =
          row.from == nullptr ? simd::zero() : load_up_to(row.from + n * row.from_stride + i, left);
      const F32 kept = simd::fma(decay, old, simd::mul(input, simd::set1(row.b[n])));
      store_up_to(row.to + n * row.to_stride + i, kept, left);
      sum = simd::fma(kept, simd::set1(row.c[n]), sum);
    }
    store_up_to(row.y + i, sum, left);
  }
}

}  // namespace
}  // namespace tenon::state_cpu
