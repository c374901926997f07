#include "core/exec/cpu/products/row_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon {
namespace {

// 16 lanes of the compiler's own vector type: one AVX-512 register, two of AVX2, four of SSE2.
using Lanes = float __attribute__((vector_size(64)));
constexpr uint32_t kLanes = 16;

[[gnu::always_inline]] inline void load(Lanes& lanes, const float* from) {
  std::memcpy(&lanes, from, sizeof(lanes));
}
[[gnu::always_inline]] inline void store(float* to, const Lanes& lanes) {
  std::memcpy(to, &lanes, sizeof(lanes));
}

// Element i goes to lane i mod 64, lanes are added in pairs of rising distance. Four vectors hide
// the latency of an addition.
[[gnu::always_inline]] inline float sum_of_squares(const float* x, uint32_t count) {
  constexpr uint32_t kWide = 4 * kLanes;
  Lanes sums[4] = {};
  uint32_t i = 0;
  for (; i + kWide <= count; i += kWide) {
    for (uint32_t v = 0; v < 4; ++v) {
      Lanes part;
      load(part, x + i + v * kLanes);
      sums[v] += part * part;
    }
  }
  float lanes[kWide];
  for (uint32_t v = 0; v < 4; ++v) store(lanes + v * kLanes, sums[v]);
  for (uint32_t lane = 0; i + lane < count; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  for (uint32_t half = kWide / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

[[gnu::always_inline]] inline float added_up(float (&lanes)[kLanes]) {
  for (uint32_t half = kLanes / 2; half > 0; half /= 2) {
    for (uint32_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// The sum of x, and that of the squares of x - mean: element i goes to lane i mod 16.
[[gnu::always_inline]] inline float sum_of(const float* x, uint32_t count) {
  Lanes sum = {};
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes part;
    load(part, x + i);
    sum += part;
  }
  float lanes[kLanes];
  store(lanes, sum);
  for (uint32_t lane = 0; i + lane < count; ++lane) lanes[lane] += x[i + lane];
  return added_up(lanes);
}
[[gnu::always_inline]] inline float sum_of_deviations(const float* x, float mean, uint32_t count) {
  Lanes sum = {};
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes part;
    load(part, x + i);
    part -= mean;
    sum += part * part;
  }
  float lanes[kLanes];
  store(lanes, sum);
  for (uint32_t lane = 0; i + lane < count; ++lane) {
    lanes[lane] += (x[i + lane] - mean) * (x[i + lane] - mean);
  }
  return added_up(lanes);
}

[[gnu::always_inline]] inline void layer_norm_body(const float* x, const float* scale,
                                                   const float* bias, uint32_t count, float eps,
                                                   float* out) {
  const float mean = sum_of(x, count) / static_cast<float>(count);
  const float variance = sum_of_deviations(x, mean, count) / static_cast<float>(count);
  const float factor = 1.0f / std::sqrt(variance + eps);
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = (x[i] - mean) * factor * scale[i] + (bias != nullptr ? bias[i] : 0.0f);
  }
}

[[gnu::always_inline]] inline void rms_norm_body(const float* x, const float* scale, uint32_t count,
                                                 float eps, float* out) {
  const float mean = sum_of_squares(x, count) / static_cast<float>(count);
  const float factor = 1.0f / std::sqrt(mean + eps);
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes values;
    Lanes scales;
    load(values, x + i);
    load(scales, scale + i);
    values = values * factor * scales;
    store(out + i, values);
  }
  for (; i < count; ++i) out[i] = x[i] * factor * scale[i];
}

[[gnu::always_inline]] inline void rotate_halves_body(const float* cosine, const float* sine,
                                                      uint32_t half, float* head) {
  uint32_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    Lanes a;
    Lanes b;
    Lanes c;
    Lanes s;
    load(a, head + i);
    load(b, head + half + i);
    load(c, cosine + i);
    load(s, sine + i);
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
[[gnu::always_inline]] inline float index_score_body(const float* q, const float* weights,
                                                     const float* k, uint32_t heads, uint32_t dim) {
  float score = 0.0f;
  for (uint32_t head = 0; head < heads; ++head, q += dim) {
    Lanes sum = {};
    uint32_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) {
      Lanes of_q;
      Lanes of_k;
      load(of_q, q + i);
      load(of_k, k + i);
      sum += of_q * of_k;
    }
    float lanes[kLanes];
    store(lanes, sum);
    for (uint32_t lane = 0; i + lane < dim; ++lane) lanes[lane] += q[i + lane] * k[i + lane];
    score += weights[head] * std::max(added_up(lanes), 0.0f);
  }
  return score;
}

void add(float* y, const float* p, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) y[i] += p[i];
}
void silu_mul(float* y, const float* p, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) y[i] = y[i] / (1.0f + std::exp(-y[i])) * p[i];
}
void sigmoid_mul(float* y, const float* p, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) y[i] /= 1.0f + std::exp(-p[i]);
}
// arXiv:1606.08415, the approximation by tanh.
void gelu_mul(float* y, const float* p, uint32_t count) {
  constexpr float kRoot = 0.797884561f;  // of 2 / π
  for (uint32_t i = 0; i < count; ++i) {
    const float inner = kRoot * (y[i] + 0.044715f * y[i] * y[i] * y[i]);
    y[i] = 0.5f * y[i] * (1.0f + std::tanh(inner)) * p[i];
  }
}

void rotate_pairs(const float* cosine, const float* sine, uint32_t half, float* head) {
  for (uint32_t i = 0; i < half; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cosine[i] - b * sine[i];
    head[2 * i + 1] = b * cosine[i] + a * sine[i];
  }
}

// What experts are added up with: by hand, since compilers leave it scalar.
void add_scaled(float* y, const float* p, float factor, uint32_t count) {
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes sum;
    Lanes part;
    load(sum, y + i);
    load(part, p + i);
    store(y + i, sum + part * factor);
  }
  for (; i < count; ++i) y[i] += factor * p[i];
}

float activated(Activation activation, float x) {
  constexpr float kRoot = 0.797884561f;        // of 2 / π
  constexpr float kRootOfHalf = 0.707106781f;  // of 1 / 2
  switch (activation) {
    case Activation::silu:
      return x / (1.0f + std::exp(-x));
    case Activation::gelu:
      return 0.5f * x * (1.0f + std::erf(x * kRootOfHalf));
    case Activation::gelu_tanh:
      return 0.5f * x * (1.0f + std::tanh(kRoot * (x + 0.044715f * x * x * x)));
    case Activation::relu:
      return x > 0.0f ? x : 0.0f;
    case Activation::relu_squared:
      return x > 0.0f ? x * x : 0.0f;
    case Activation::xielu:  // its numbers are those of a layer: xielu()
      return x;
  }
  return x;
}

void activate(Activation activation, float* y, const float* p, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const float value = activated(activation, y[i]);
    y[i] = p != nullptr ? value * p[i] : value;
  }
}

void xielu(const Xielu& by, float* y, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const float x = y[i];
    const float curved =
        x > 0.0f ? by.alpha_p * x * x : by.alpha_n * (std::expm1(std::min(x, by.eps)) - x);
    y[i] = curved + by.beta * x;
  }
}

void clamped_swiglu(float* y, const float* p, float alpha, float limit, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const float gate = std::min(y[i], limit);
    const float up = std::clamp(p[i], -limit, limit);
    y[i] = gate / (1.0f + std::exp(-alpha * gate)) * (up + 1.0f);
  }
}

void limited_gate(Activation activation, float* y, const float* p, float limit, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    y[i] = std::min(activated(activation, y[i]), limit) * std::clamp(p[i], -limit, limit);
  }
}

void clip(float* y, float limit, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) y[i] = std::clamp(y[i], -limit, limit);
}

void scale_and_cap(float* y, float factor, float cap, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const float value = factor * y[i];
    y[i] = cap != 0.0f ? cap * std::tanh(value / cap) : value;
  }
}

// Those that are compiled once for each instruction set, and the others.
constexpr RowOps with_plain_ops(decltype(RowOps::rms_norm) rms_norm,
                                decltype(RowOps::layer_norm) layer_norm,
                                decltype(RowOps::rotate_halves) rotate_halves,
                                decltype(RowOps::index_score) index_score) {
  return {rms_norm,     layer_norm,  rotate_halves, rotate_pairs, add,   silu_mul,
          gelu_mul,     sigmoid_mul, add_scaled,    activate,     xielu, clamped_swiglu,
          limited_gate, clip,        index_score,   scale_and_cap};
}

void rms_norm_portable(const float* x, const float* scale, uint32_t count, float eps, float* out) {
  rms_norm_body(x, scale, count, eps, out);
}
void layer_norm_portable(const float* x, const float* scale, const float* bias, uint32_t count,
                         float eps, float* out) {
  layer_norm_body(x, scale, bias, count, eps, out);
}
void rotate_halves_portable(const float* cosine, const float* sine, uint32_t half, float* head) {
  rotate_halves_body(cosine, sine, half, head);
}
float index_score_portable(const float* q, const float* weights, const float* k, uint32_t heads,
                           uint32_t dim) {
  return index_score_body(q, weights, k, heads, dim);
}
constexpr RowOps kPortable = with_plain_ops(rms_norm_portable, layer_norm_portable,
                                            rotate_halves_portable, index_score_portable);

#if defined(__x86_64__)
[[gnu::target("avx2")]] void rms_norm_avx2(const float* x, const float* scale, uint32_t count,
                                           float eps, float* out) {
  rms_norm_body(x, scale, count, eps, out);
}
[[gnu::target("avx2")]] void layer_norm_avx2(const float* x, const float* scale, const float* bias,
                                             uint32_t count, float eps, float* out) {
  layer_norm_body(x, scale, bias, count, eps, out);
}
[[gnu::target("avx2")]] void rotate_halves_avx2(const float* cosine, const float* sine,
                                                uint32_t half, float* head) {
  rotate_halves_body(cosine, sine, half, head);
}
[[gnu::target("avx2")]] float index_score_avx2(const float* q, const float* weights, const float* k,
                                               uint32_t heads, uint32_t dim) {
  return index_score_body(q, weights, k, heads, dim);
}
constexpr RowOps kAvx2 =
    with_plain_ops(rms_norm_avx2, layer_norm_avx2, rotate_halves_avx2, index_score_avx2);

[[gnu::target("avx512f")]] void rms_norm_avx512(const float* x, const float* scale, uint32_t count,
                                                float eps, float* out) {
  rms_norm_body(x, scale, count, eps, out);
}
[[gnu::target("avx512f")]] void layer_norm_avx512(const float* x, const float* scale,
                                                  const float* bias, uint32_t count, float eps,
                                                  float* out) {
  layer_norm_body(x, scale, bias, count, eps, out);
}
[[gnu::target("avx512f")]] void rotate_halves_avx512(const float* cosine, const float* sine,
                                                     uint32_t half, float* head) {
  rotate_halves_body(cosine, sine, half, head);
}
[[gnu::target("avx512f")]] float index_score_avx512(const float* q, const float* weights,
                                                    const float* k, uint32_t heads, uint32_t dim) {
  return index_score_body(q, weights, k, heads, dim);
}
constexpr RowOps kAvx512 =
    with_plain_ops(rms_norm_avx512, layer_norm_avx512, rotate_halves_avx512, index_score_avx512);
#endif

}  // namespace

const RowOps& row_ops(CpuFeatures isa) {
#if defined(__x86_64__)
  if (isa.has(CpuFeature::avx512)) return kAvx512;
  if (isa.has(CpuFeature::avx2)) return kAvx2;
#else
  (void)isa;
#endif
  return kPortable;
}

}  // namespace tenon
