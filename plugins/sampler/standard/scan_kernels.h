// The scans, written once over sixteen lanes: one vector of AVX-512, two of AVX2, four of SSE2.
#pragma once

#include <tenon/sdk/simd.h>

#include "plugins/sampler/standard/scan.h"

namespace tenon::standard {
namespace {

namespace simd = sdk::simd;
using simd::F32;

constexpr uint32_t kVectors = 16 / simd::kLanes;
constexpr uint32_t kPacks = kBlock / 16;
constexpr float kLargest = __FLT_MAX__;

// Sixteen lanes.
struct Pack {
  F32 v[kVectors];
};

[[gnu::always_inline]] inline Pack load16(const float* from) {
  Pack pack;
  for (uint32_t i = 0; i < kVectors; ++i) pack.v[i] = simd::load(from + i * simd::kLanes);
  return pack;
}
[[gnu::always_inline]] inline void store16(float* to, const Pack& pack) {
  for (uint32_t i = 0; i < kVectors; ++i) simd::store(to + i * simd::kLanes, pack.v[i]);
}
template <typename Function>
[[gnu::always_inline]] inline Pack map(const Pack& a, Function&& function) {
  Pack out;
  for (uint32_t i = 0; i < kVectors; ++i) out.v[i] = function(a.v[i]);
  return out;
}
template <typename Function>
[[gnu::always_inline]] inline Pack map(const Pack& a, const Pack& b, Function&& function) {
  Pack out;
  for (uint32_t i = 0; i < kVectors; ++i) out.v[i] = function(a.v[i], b.v[i]);
  return out;
}
[[gnu::always_inline]] inline Pack plus(const Pack& a, const Pack& b) {
  return map(a, b, [](F32 x, F32 y) { return simd::add(x, y); });
}
// Halves are added until four lanes are left, then 0+2 and 1+3: the same tree in every set.
[[gnu::always_inline]] inline float sum16(const Pack& a) {
  if constexpr (kVectors == 4) {
    return simd::reduce_add(simd::add(simd::add(a.v[0], a.v[kVectors / 2]),
                                      simd::add(a.v[kVectors / 4], a.v[kVectors - 1])));
  } else if constexpr (kVectors == 2) {
    return simd::reduce_add(simd::add(a.v[0], a.v[kVectors - 1]));
  } else {
    return simd::reduce_add(a.v[0]);
  }
}
[[gnu::always_inline]] inline float max16(const Pack& a) {
  float best = simd::reduce_max(a.v[0]);
  for (uint32_t i = 1; i < kVectors; ++i) {
    const float next = simd::reduce_max(a.v[i]);
    best = next > best ? next : best;
  }
  return best;
}

// e^a for -87 <= a <= 0: 2^n · p(r) with a = n·ln 2 + r, |r| <= ln 2 / 2; p is the Taylor
// polynomial of degree 7. Every product is rounded, so that all sets agree.
[[gnu::always_inline]] inline F32 exp_of(F32 a) {
  const F32 shift = simd::set1(12582912.0f + 127.0f);  // rounds to integers, biased as exponents
  const F32 shifted = simd::add(simd::mul(a, simd::set1(1.44269504f)), shift);
  const F32 n = simd::sub(shifted, shift);
  const F32 r = simd::sub(simd::sub(a, simd::mul(n, simd::set1(0.693359375f))),
                          simd::mul(n, simd::set1(-2.12194440e-4f)));
  F32 p = simd::set1(1.0f / 5040);
  for (const float term : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    p = simd::add(simd::mul(p, r), simd::set1(term));
  }
  return simd::mul(p, simd::exponent_bits(shifted));
}

// Exponents and weights of sixteen logits; 0 for those that do not count.
struct Weighed {
  Pack exponent;
  Pack weight;
};
[[gnu::always_inline]] inline Weighed weigh16(const Segment& segment, const Pack& x) {
  const F32 low = simd::set1(segment.low), high = simd::set1(segment.high);
  const F32 peak = simd::set1(segment.peak), scale = simd::set1(segment.scale);
  const F32 floor = simd::set1(-87.0f), none = simd::zero();
  Weighed out;
  for (uint32_t i = 0; i < kVectors; ++i) {
    const F32 raw = simd::mul(simd::sub(x.v[i], peak), scale);
    const F32 a = simd::min(simd::zero(), simd::max(raw, floor));
    F32 w = simd::select(simd::less(raw, floor), none, exp_of(a));
    w = simd::select(simd::less(x.v[i], low), none, w);
    w = simd::select(simd::less(high, x.v[i]), none, w);
    out.exponent.v[i] = a;
    out.weight.v[i] = w;
  }
  return out;
}

void clean(const float* from, float* values, uint32_t blocks, float* block_max) {
  const F32 nothing = simd::set1(-__builtin_inff()), largest = simd::set1(kLargest);
  const F32 smallest = simd::set1(__FLT_MIN__);
  for (uint32_t block = 0; block < blocks; ++block) {
    Pack best = map(load16(from), [&](F32) { return nothing; });
    for (uint32_t i = 0; i < kBlock; i += 16) {
      const Pack x = map(load16(from + size_t{block} * kBlock + i), [&](F32 v) {
        v = simd::min(largest, simd::max(v, nothing));
        const F32 size = simd::max(v, simd::sub(simd::zero(), v));
        return simd::select(simd::less(size, smallest), simd::zero(), v);
      });
      store16(values + size_t{block} * kBlock + i, x);
      best = map(x, best, [](F32 a, F32 b) { return simd::max(a, b); });
    }
    block_max[block] = max16(best);
  }
}

float highest(const float* logits, uint32_t count) {
  float best = -__builtin_inff();
  uint32_t i = 0;
  if (count >= kBlock) {
    Pack tops[kPacks];  // chains, so that comparisons overlap
    for (Pack& top : tops) top = map(load16(logits), [&](F32) { return simd::set1(best); });
    for (; i + kBlock <= count; i += kBlock) {
      for (uint32_t chain = 0; chain < kPacks; ++chain) {
        tops[chain] = map(load16(logits + i + chain * 16), tops[chain],
                          [](F32 x, F32 top) { return simd::max(x, top); });
      }
    }
    for (const Pack& top : tops) {
      const float next = max16(top);
      best = next > best ? next : best;
    }
  }
  for (; i < count; ++i) best = logits[i] > best ? logits[i] : best;
  return best;
}

void weigh(const Segment& segment, double* block_weight) {
  for (uint32_t block = 0; block < segment.blocks; ++block) {
    block_weight[block] = 0.0;
    if (segment.block_max[block] < segment.low) continue;
    const float* values = segment.values + size_t{block} * kBlock;
    Pack sum = weigh16(segment, load16(values)).weight;
    for (uint32_t i = 16; i < kBlock; i += 16) {
      sum = plus(sum, weigh16(segment, load16(values + i)).weight);
    }
    block_weight[block] = sum16(sum);
  }
}

void weigh_block(const Segment& segment, float* weights) {
  for (uint32_t i = 0; i < kBlock; i += 16) {
    store16(weights + i, weigh16(segment, load16(segment.values + i)).weight);
  }
}

void spread(const Segment& segment, double* total) {
  for (uint32_t block = 0; block < segment.blocks; ++block) {
    if (segment.block_max[block] < segment.low) continue;
    const float* values = segment.values + size_t{block} * kBlock;
    Pack sum = map(load16(values), [](F32) { return simd::zero(); });
    for (uint32_t i = 0; i < kBlock; i += 16) {
      const Weighed part = weigh16(segment, load16(values + i));
      sum = plus(sum, map(part.weight, part.exponent,
                          [](F32 w, F32 a) { return simd::mul(w, simd::sub(simd::zero(), a)); }));
    }
    *total += sum16(sum);
  }
}

void moments(const Segment& segment, Moments* total) {
  const F32 low = simd::set1(segment.low), high = simd::set1(segment.high);
  const F32 peak = simd::set1(segment.peak), none = simd::zero();
  for (uint32_t block = 0; block < segment.blocks; ++block) {
    if (segment.block_max[block] < segment.low) continue;
    const float* values = segment.values + size_t{block} * kBlock;
    Pack count = map(load16(values), [&](F32) { return none; }), sum = count, squares = count;
    for (uint32_t i = 0; i < kBlock; i += 16) {
      const Pack x = load16(values + i);
      for (uint32_t v = 0; v < kVectors; ++v) {
        const auto counted = [&](F32 yes) {
          return simd::select(simd::less(x.v[v], low), none,
                              simd::select(simd::less(high, x.v[v]), none, yes));
        };
        const F32 below = simd::sub(peak, x.v[v]);
        count.v[v] = simd::add(count.v[v], counted(simd::set1(1.0f)));
        sum.v[v] = simd::add(sum.v[v], counted(below));
        squares.v[v] = simd::add(squares.v[v], counted(simd::mul(below, below)));
      }
    }
    total->count += sum16(count);
    total->sum += sum16(sum);
    total->squares += sum16(squares);
  }
}

constexpr ScanKernels make_scan_kernels(const char* name) {
  return {name, &clean, &highest, &weigh, &weigh_block, &spread, &moments};
}

}  // namespace
}  // namespace tenon::standard
