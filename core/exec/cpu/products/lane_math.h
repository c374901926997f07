// Functions of several values at once: the curves of activations, gates and caps.
//
// Of vectors V of the compiler's own (4, 8 or 16 floats, as wide as a register), of additions,
// products and divisions that round one by one (tenon_target_defaults allows no contraction), so
// every instruction set gives the same bits, as a mathematics library does not: its versions
// differ, and choose by the processor. All is inlined into functions of one instruction set; no
// vector crosses a call. A NaN stays one.
#pragma once

#include <cstdint>
#include <cstring>

namespace tenon::lanes {

// As wide as a register of that set.
using Lanes4 = float __attribute__((vector_size(16)));
using Lanes8 = float __attribute__((vector_size(32)));
using Lanes16 = float __attribute__((vector_size(64)));

template <typename V>
inline constexpr uint32_t kLanes = sizeof(V) / sizeof(float);

template <typename V>
[[gnu::always_inline]] inline V load(const float* from) {
  V lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}
template <typename V>
[[gnu::always_inline]] inline void store(float* to, V lanes) {
  std::memcpy(to, &lanes, sizeof(lanes));
}
// The first `count` lanes; the others are 0.
template <typename V>
[[gnu::always_inline]] inline V load_first(const float* from, uint32_t count) {
  V lanes = {};
  std::memcpy(&lanes, from, count * sizeof(float));
  return lanes;
}
template <typename V>
[[gnu::always_inline]] inline void store_first(float* to, V lanes, uint32_t count) {
  std::memcpy(to, &lanes, count * sizeof(float));
}
template <typename V>
[[gnu::always_inline]] inline V all(float value) {
  return V{} + value;
}

// In each lane; b where a is NaN.
template <typename V>
[[gnu::always_inline]] inline V less_of(V a, V b) {
  return a < b ? a : b;
}
template <typename V>
[[gnu::always_inline]] inline V greater_of(V a, V b) {
  return a > b ? a : b;
}

// Within [-limit, limit].
template <typename V>
[[gnu::always_inline]] inline V held(V x, float limit) {
  return greater_of(all<V>(-limit), less_of(all<V>(limit), x));
}

// e^x with a relative error below 4e-7, x held in [-87.3, 88.3]: no subnormal result, no infinity.
template <typename V>
[[gnu::always_inline]] inline V exp(V x) {
  x = greater_of(all<V>(-87.3f), less_of(all<V>(88.3f), x));
  // Adding 1.5 · 2^23 rounds to an integer; with the bias of exponents they are its lowest bits.
  const V shift = all<V>(12582912.0f + 127.0f);
  const V shifted = x * 1.44269504f + shift;
  const V n = shifted - shift;
  // ln 2 in two parts, of which n times the first is exact; |r| <= ln 2 / 2.
  const V r = x - n * 0.693145751953125f - n * 1.42860682e-6f;
  V sum = r * (1.0f / 720.0f) + 1.0f / 120.0f;  // Taylor's series; the next term is below 2e-7
  sum = sum * r + 1.0f / 24.0f;
  sum = sum * r + 1.0f / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  decltype(V{} < V{}) power;  // integers of as many bits
  std::memcpy(&power, &shifted, sizeof(power));
  power <<= 23;
  V factor;
  std::memcpy(&factor, &power, sizeof(factor));
  return sum * factor;
}

// 1 / (1 + e^-x)
template <typename V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  return 1.0f / (exp(-x) + 1.0f);
}

template <typename V>
[[gnu::always_inline]] inline V silu(V x) {
  return x / (exp(-x) + 1.0f);
}

// arXiv:1606.08415, the approximation by tanh: (1 + tanh(u)) / 2 is the sigmoid of 2u.
template <typename V>
[[gnu::always_inline]] inline V gelu_tanh(V x) {
  constexpr float kTwiceRoot = 1.595769122f;  // of 2 / π
  return x / (exp((x * x * x * 0.044715f + x) * -kTwiceRoot) + 1.0f);
}

// Relative error below 5e-7.
template <typename V>
[[gnu::always_inline]] inline V tanh(V x) {
  const V magnitude = x < 0.0f ? -x : x;
  const V decay = exp(magnitude * -2.0f);
  const V far = (1.0f - decay) / (decay + 1.0f);
  // Near 0 that difference has few digits left. Chebyshev's fit of (tanh(x) - x) / x³ in x².
  const V square = x * x;
  V sum = square * -0.0062763904f + 0.021116216f;
  sum = sum * square - 0.053875137f;
  sum = sum * square + 0.13332924f;
  sum = sum * square - 0.33333331f;
  const V near = sum * square * x + x;
  return magnitude < 0.6f ? near : x < 0.0f ? -far : far;
}

// Error below 3e-7. With t = 1 / (1 + 0.34 |x|) erfc(|x|) e^(x²) is nearly a polynomial of t: a fit
// whose own error in erf, over [0, 4.2], is 7e-10 at most.
template <typename V>
[[gnu::always_inline]] inline V erf(V x) {
  const V magnitude = x < 0.0f ? -x : x;
  const V t = 1.0f / (magnitude * 0.34f + 1.0f);
  V sum = t * -0.24698297925138127f + 1.087612248238433f;
  sum = sum * t - 1.2509881988442488f;
  sum = sum * t + 1.2111891021217207f;
  sum = sum * t - 0.2860378372528939f;
  sum = sum * t + 0.3050597836069232f;
  sum = sum * t + 0.18014788066281281f;
  const V far = 1.0f - sum * t * exp(-(x * x));
  return x < 0.0f ? -far : far;
}

// e^x - 1 with an error below 4e-7 of itself.
template <typename V>
[[gnu::always_inline]] inline V expm1(V x) {
  V sum = x * (1.0f / 5040.0f) + 1.0f / 720.0f;
  sum = sum * x + 1.0f / 120.0f;
  sum = sum * x + 1.0f / 24.0f;
  sum = sum * x + 1.0f / 6.0f;
  sum = sum * x + 0.5f;
  const V near = sum * x * x + x;
  const V magnitude = x < 0.0f ? -x : x;
  return magnitude < 0.5f ? near : exp(x) - 1.0f;
}

// y [count] = curve(y), a vector at a time; curve(V& of_y).
template <typename V, typename Curve>
[[gnu::always_inline]] inline void bend(float* y, uint32_t count, Curve curve) {
  uint32_t i = 0;
  for (; i + kLanes<V> <= count; i += kLanes<V>) {
    V of_y = load<V>(y + i);
    curve(of_y);
    store(y + i, of_y);
  }
  if (i == count) return;
  V of_y = load_first<V>(y + i, count - i);
  curve(of_y);
  store_first(y + i, of_y, count - i);
}
// As above with p [count]; curve(V& of_y, const V& of_p).
template <typename V, typename Curve>
[[gnu::always_inline]] inline void bend(float* y, const float* p, uint32_t count, Curve curve) {
  uint32_t i = 0;
  for (; i + kLanes<V> <= count; i += kLanes<V>) {
    V of_y = load<V>(y + i);
    curve(of_y, load<V>(p + i));
    store(y + i, of_y);
  }
  if (i == count) return;
  V of_y = load_first<V>(y + i, count - i);
  curve(of_y, load_first<V>(p + i, count - i));
  store_first(y + i, of_y, count - i);
}

}  // namespace tenon::lanes
