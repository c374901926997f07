// The kernels, compiled once for each instruction set.
#pragma once

#include <tenon/sdk/simd.h>

#include <cmath>
#include <cstdint>

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

// A state at rest is read again when all weights have been: it only pushes others out of the
// caches, and a line that is written whole need not be read before.
template <bool streams>
inline void store_state(float* to, F32 value, uint32_t count) {
  if constexpr (streams) {
    simd::stream(to, value);
  } else {
    store_up_to(to, value, count);
  }
}
// Whether rows of `stride` from there on are whole vectors, each at its place.
inline bool whole_vectors(const float* to, uint64_t stride) {
  return reinterpret_cast<uintptr_t>(to) % sizeof(F32) == 0 && stride % kLanes == 0;
}

// Rows of a head's state that are worked on side by side: one alone would wait for its own sums.
constexpr uint32_t kSideBySide = 4;

template <uint32_t rows, bool streams>
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
      store_state<streams>(head.to + at, kept, left);
      sums[r] = simd::fma(kept, c, sums[r]);
    }
  }
  for (uint32_t r = 0; r < rows; ++r) {
    head.y[p + r] = simd::reduce_add(sums[r]) + head.d * head.x[p + r];
  }
}

template <bool streams>
inline void scan_all_rows(const HeadRow& head) {
  uint32_t p = 0;
  for (; p + kSideBySide <= head.dim; p += kSideBySide) scan_rows<kSideBySide, streams>(head, p);
  for (; p < head.dim; ++p) scan_rows<1, streams>(head, p);
}

void scan_head(const HeadRow& head) {
  const bool streams = head.at_rest && head.to != head.from && whole_vectors(head.to, head.state);
  streams ? scan_all_rows<true>(head) : scan_all_rows<false>(head);
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

void set_length(float* x, uint32_t count, float length) {
  F32 squares = simd::zero();
  for (uint32_t i = 0; i < count; i += kLanes) {
    const F32 part = load_up_to(x + i, count - i);
    squares = simd::fma(part, part, squares);
  }
  const F32 factor = simd::set1(length / std::sqrt(simd::reduce_add(squares) + 1e-6f));
  for (uint32_t i = 0; i < count; i += kLanes) {
    store_up_to(x + i, simd::mul(load_up_to(x + i, count - i), factor), count - i);
  }
}

// Vectors of columns that are worked on side by side, and elements of keys that are added up apart:
// together the sums that need not wait for each other.
constexpr uint32_t kDeltaVectors = 4, kDeltaSums = 2;

struct DeltaColumns {
  F32 of[kDeltaVectors];
};

template <typename Load>
inline DeltaColumns load_columns(Load load) {
  DeltaColumns columns;
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kDeltaVectors; ++i) columns.of[i] = load(i);
  return columns;
}

// `whole`: there are columns for all vectors.
template <bool whole, bool streams>
inline void scan_columns(const DeltaRow& row) {
  const auto left = [&](uint32_t i) { return whole ? kLanes : row.count - i * kLanes; };
  const uint32_t vectors = whole ? kDeltaVectors : (row.count + kLanes - 1) / kLanes;
  const auto load = [&](const float* from, uint32_t i) {
    return i < vectors ? load_up_to(from + i * kLanes, left(i)) : simd::zero();
  };
  const auto old = [&](uint32_t key) {
    const float* from = row.from + key * row.from_stride;
    return load_columns([&](uint32_t i) { return load(from, i); });
  };
  const auto nothing = load_columns([](uint32_t) { return simd::zero(); });
  DeltaColumns sums[kDeltaSums] = {nothing, nothing};
  const auto add_to = [&](DeltaColumns& to, float factor, const DeltaColumns& values) {
    const F32 scale = simd::set1(factor);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kDeltaVectors; ++i) {
      to.of[i] = simd::fma(scale, values.of[i], to.of[i]);
    }
  };
  for (uint32_t key = 0; key < row.keys && row.from != nullptr; ++key) {
    add_to(sums[key % kDeltaSums], row.k[key] * row.decays[key * row.decay_step], old(key));
  }
  const F32 beta = simd::set1(row.beta);
  const DeltaColumns change = load_columns([&](uint32_t i) {
    const F32 read = simd::add(sums[0].of[i], sums[1].of[i]);
    return simd::mul(beta, simd::sub(load(row.v, i), read));
  });
  sums[0] = sums[1] = nothing;
  for (uint32_t key = 0; key < row.keys; ++key) {
    const F32 k = simd::set1(row.k[key]), q = simd::set1(row.q[key]);
    const F32 decay = simd::set1(row.decays[key * row.decay_step]);
    const DeltaColumns before = row.from == nullptr ? nothing : old(key);
    float* to = row.to + key * row.to_stride;
    DeltaColumns& sum = sums[key % kDeltaSums];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kDeltaVectors; ++i) {
      if (i >= vectors) break;
      const F32 kept = simd::fma(k, change.of[i], simd::mul(decay, before.of[i]));
      store_state<streams>(to + i * kLanes, kept, left(i));
      sum.of[i] = simd::fma(q, kept, sum.of[i]);
    }
  }
  for (uint32_t i = 0; i < vectors; ++i) {
    store_up_to(row.y + i * kLanes, simd::add(sums[0].of[i], sums[1].of[i]), left(i));
  }
}

void scan_delta(const DeltaRow& row) {
  if (row.count != kDeltaVectors * kLanes) {
    scan_columns<false, false>(row);
  } else if (row.at_rest && row.to != row.from && whole_vectors(row.to, row.to_stride)) {
    scan_columns<true, true>(row);
  } else {
    scan_columns<true, false>(row);
  }
}

constexpr KernelSet kernel_set(const char* name) {
  return {.name = name,
          .convolve = &convolve,
          .scan_head = &scan_head,
          .scan_channels = &scan_channels,
          .set_length = &set_length,
          .scan_delta = &scan_delta,
          .delta_columns = kDeltaVectors * kLanes,
          .end_streams = [] { simd::end_streams(); }};
}

}  // namespace
}  // namespace tenon::state_cpu
