#include "core/exec/cpu/products/row_ops.h"

#include <algorithm>
#include <cmath>

#include "core/exec/cpu/products/lane_math.h"

// Of a lambda: attributes in brackets would be its type's.
#define TENON_INLINED __attribute__((always_inline))

namespace tenon {
namespace {

using namespace lanes;

// Of sums: their order is that of 16 lanes on every instruction set.
using Lanes = Lanes16;

// Element i goes to lane i mod 64, lanes are added in pairs of rising distance. Four vectors hide
// the latency of an addition.
[[gnu::always_inline]] inline float sum_of_squares(const float* x, uint32_t count) {
  constexpr uint32_t kWide = 4 * kLanes<Lanes>;
  Lanes sums[4] = {};
  uint32_t i = 0;
  for (; i + kWide <= count; i += kWide) {
    for (uint32_t v = 0; v < 4; ++v) {
      const Lanes part = load<Lanes>(x + i + v * kLanes<Lanes>);
      sums[v] += part * part;
    }
  }
  float lanes[kWide];
  for (uint32_t v = 0; v < 4; ++v) store(lanes + v * kLanes<Lanes>, sums[v]);
  for (uint32_t lane = 0; i + lane < count; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  for (uint32_t half = kWide / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

[[gnu::always_inline]] inline float added_up(float (&lanes)[kLanes<Lanes>]) {
  for (uint32_t half = kLanes<Lanes> / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// The sum of x, and that of the squares of x - mean: element i goes to lane i mod 16.
[[gnu::always_inline]] inline float sum_of(const float* x, uint32_t count) {
  Lanes sum = {};
  uint32_t i = 0;
  for (; i + kLanes<Lanes> <= count; i += kLanes<Lanes>) {
    sum += load<Lanes>(x + i);
  }
  float lanes[kLanes<Lanes>];
  store(lanes, sum);
  for (uint32_t lane = 0; i + lane < count; ++lane) lanes[lane] += x[i + lane];
  return added_up(lanes);
}
[[gnu::always_inline]] inline float sum_of_deviations(const float* x, float mean, uint32_t count) {
  Lanes sum = {};
  uint32_t i = 0;
  for (; i + kLanes<Lanes> <= count; i += kLanes<Lanes>) {
    const Lanes part = load<Lanes>(x + i) - mean;
    sum += part * part;
  }
  float lanes[kLanes<Lanes>];
  store(lanes, sum);
  for (uint32_t lane = 0; i + lane < count; ++lane) {
    lanes[lane] += (x[i + lane] - mean) * (x[i + lane] - mean);
  }
  return added_up(lanes);
}

[[gnu::always_inline]] inline void layer_norm(const float* x, const float* scale, const float* bias,
                                              uint32_t count, float eps, float* out) {
  const float mean = sum_of(x, count) / static_cast<float>(count);
  const float variance = sum_of_deviations(x, mean, count) / static_cast<float>(count);
  const float factor = 1.0f / std::sqrt(variance + eps);
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = (x[i] - mean) * factor * scale[i] + (bias != nullptr ? bias[i] : 0.0f);
  }
}

[[gnu::always_inline]] inline void rms_norm(const float* x, const float* scale, uint32_t count,
                                            float eps, float* out) {
  const float mean = sum_of_squares(x, count) / static_cast<float>(count);
  const float factor = 1.0f / std::sqrt(mean + eps);
  uint32_t i = 0;
  for (; i + kLanes<Lanes> <= count; i += kLanes<Lanes>) {
    store(out + i, load<Lanes>(x + i) * factor * load<Lanes>(scale + i));
  }
  for (; i < count; ++i) out[i] = x[i] * factor * scale[i];
}

[[gnu::always_inline]] inline void rotate_halves(const float* cosine, const float* sine,
                                                 uint32_t half, float* head) {
  uint32_t i = 0;
  for (; i + kLanes<Lanes> <= half; i += kLanes<Lanes>) {
    const Lanes a = load<Lanes>(head + i);
    const Lanes b = load<Lanes>(head + half + i);
    const Lanes c = load<Lanes>(cosine + i);
    const Lanes s = load<Lanes>(sine + i);
    store(head + i, a * c - b * s);
    store(head + half + i, b * c + a * s);
  }
  for (; i < half; ++i) {
    const float a = head[i];
    const float b = head[half + i];
    head[i] = a * cosine[i] - b * sine[i];
    head[half + i] = b * cosine[i] + a * sine[i];
  }
}

// Element i of a product goes to lane i mod 16; heads are added in their order.
[[gnu::always_inline]] inline float index_score(const float* q, const float* weights,
                                                const float* k, uint32_t heads, uint32_t dim) {
  float score = 0.0f;
  for (uint32_t head = 0; head < heads; ++head, q += dim) {
    Lanes sum = {};
    uint32_t i = 0;
    for (; i + kLanes<Lanes> <= dim; i += kLanes<Lanes>) {
      sum += load<Lanes>(q + i) * load<Lanes>(k + i);
    }
    float lanes[kLanes<Lanes>];
    store(lanes, sum);
    for (uint32_t lane = 0; i + lane < dim; ++lane) lanes[lane] += q[i + lane] * k[i + lane];
    score += weights[head] * std::max(added_up(lanes), 0.0f);
  }
  return score;
}

[[gnu::always_inline]] inline void add(float* y, const float* p, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) y[i] += p[i];
}
template <typename V>
[[gnu::always_inline]] inline void silu_mul(float* y, const float* p, uint32_t count) {
  bend<V>(y, p, count, [](V& of_y, const V& of_p) TENON_INLINED { of_y = silu(of_y) * of_p; });
}
template <typename V>
[[gnu::always_inline]] inline void sigmoid_mul(float* y, const float* p, uint32_t count) {
  bend<V>(y, p, count, [](V& of_y, const V& of_p) TENON_INLINED { of_y *= sigmoid(of_p); });
}
template <typename V>
[[gnu::always_inline]] inline void gelu_mul(float* y, const float* p, uint32_t count) {
  bend<V>(y, p, count, [](V& of_y, const V& of_p) TENON_INLINED { of_y = gelu_tanh(of_y) * of_p; });
}

[[gnu::always_inline]] inline void rotate_pairs(const float* cosine, const float* sine,
                                                uint32_t half, float* head) {
  for (uint32_t i = 0; i < half; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cosine[i] - b * sine[i];
    head[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

// What experts are added up with.
template <typename V>
[[gnu::always_inline]] inline void add_scaled(float* y, const float* p, float factor,
                                              uint32_t count) {
  bend<V>(y, p, count, [factor](V& of_y, const V& of_p) TENON_INLINED { of_y += of_p * factor; });
}

// Calls each(curve) with the curve of `activation`: curve(V& x).
template <typename V, typename Each>
[[gnu::always_inline]] inline void with_curve(Activation activation, Each each) {
  switch (activation) {
    case Activation::silu:
      return each([](V& x) TENON_INLINED { x = silu(x); });
    case Activation::gelu:
      return each([](V& x) TENON_INLINED { x = x * 0.5f * (erf(x * 0.707106781f) + 1.0f); });
    case Activation::gelu_tanh:
      return each([](V& x) TENON_INLINED { x = gelu_tanh(x); });
    case Activation::relu:
      return each([](V& x) TENON_INLINED { x = x > 0.0f ? x : all<V>(0.0f); });
    case Activation::relu_squared:
      return each([](V& x) TENON_INLINED { x = x > 0.0f ? x * x : all<V>(0.0f); });
    case Activation::xielu:  // its numbers are those of a layer: xielu()
      return each([](V&) TENON_INLINED {});
  }
}

template <typename V>
[[gnu::always_inline]] inline void activate(Activation activation, float* y, const float* p,
                                            uint32_t count) {
  with_curve<V>(activation, [=](auto curve) TENON_INLINED {
    if (p == nullptr) return bend<V>(y, count, curve);
    bend<V>(y, p, count, [curve](V& of_y, const V& of_p) TENON_INLINED {
      curve(of_y);
      of_y *= of_p;
    });
  });
}

template <typename V>
[[gnu::always_inline]] inline void xielu(const Xielu& by, float* y, uint32_t count) {
  bend<V>(y, count, [by](V& x) TENON_INLINED {
    const V below = (expm1(less_of(x, all<V>(by.eps))) - x) * by.alpha_n;
    x = (x > 0.0f ? x * by.alpha_p * x : below) + x * by.beta;
  });
}

template <typename V>
[[gnu::always_inline]] inline void clamped_swiglu(float* y, const float* p, float alpha,
                                                  float limit, uint32_t count) {
  bend<V>(y, p, count, [=](V& of_y, const V& of_p) TENON_INLINED {
    const V gate = less_of(all<V>(limit), of_y);
    of_y = gate * sigmoid(gate * alpha) * (held(of_p, limit) + 1.0f);
  });
}

template <typename V>
[[gnu::always_inline]] inline void limited_gate(Activation activation, float* y, const float* p,
                                                float limit, uint32_t count) {
  with_curve<V>(activation, [=](auto curve) TENON_INLINED {
    bend<V>(y, p, count, [=](V& of_y, const V& of_p) TENON_INLINED {
      curve(of_y);
      of_y = less_of(all<V>(limit), of_y) * held(of_p, limit);
    });
  });
}

template <typename V>
[[gnu::always_inline]] inline void clip(float* y, float limit, uint32_t count) {
  bend<V>(y, count, [limit](V& x) TENON_INLINED { x = held(x, limit); });
}

template <typename V>
[[gnu::always_inline]] inline void scale_and_cap(float* y, float factor, float cap,
                                                 uint32_t count) {
  if (cap == 0.0f) {
    for (uint32_t i = 0; i < count; ++i) y[i] *= factor;
    return;
  }
  bend<V>(y, count, [=](V& x) TENON_INLINED { x = tanh(x * factor / cap) * cap; });
}

// The text is compiled once for each instruction set, inlined into functions of that set.
template <auto body>
struct Portable;
template <typename Out, typename... In, Out (*body)(In...)>
struct Portable<body> {
  static Out call(In... in) { return body(in...); }
};
#if defined(__x86_64__)
template <auto body>
struct Avx2;
template <typename Out, typename... In, Out (*body)(In...)>
struct Avx2<body> {
  [[gnu::target("avx2")]] static Out call(In... in) { return body(in...); }
};
template <auto body>
struct Avx512;
template <typename Out, typename... In, Out (*body)(In...)>
struct Avx512<body> {
  [[gnu::target("avx512f")]] static Out call(In... in) { return body(in...); }
};
#endif

template <template <auto> class Set, typename V>
constexpr RowOps kOps = {.rms_norm = Set<&rms_norm>::call,
                         .layer_norm = Set<&layer_norm>::call,
                         .rotate_halves = Set<&rotate_halves>::call,
                         .rotate_pairs = Set<&rotate_pairs>::call,
                         .add = Set<&add>::call,
                         .silu_mul = Set<&silu_mul<V>>::call,
                         .gelu_mul = Set<&gelu_mul<V>>::call,
                         .sigmoid_mul = Set<&sigmoid_mul<V>>::call,
                         .add_scaled = Set<&add_scaled<V>>::call,
                         .activate = Set<&activate<V>>::call,
                         .xielu = Set<&xielu<V>>::call,
                         .clamped_swiglu = Set<&clamped_swiglu<V>>::call,
                         .limited_gate = Set<&limited_gate<V>>::call,
                         .clip = Set<&clip<V>>::call,
                         .index_score = Set<&index_score>::call,
                         .scale_and_cap = Set<&scale_and_cap<V>>::call};

}  // namespace

const RowOps& row_ops(CpuFeatures isa) {
#if defined(__x86_64__)
  if (isa.has(CpuFeature::avx512)) return kOps<Avx512, Lanes16>;
  if (isa.has(CpuFeature::avx2)) return kOps<Avx2, Lanes8>;
#else
  (void)isa;
#endif
  return kOps<Portable, Lanes4>;
}

}  // namespace tenon
