// The micro-kernel of both products: C += A · B for R rows of A, values of A broadcast, rows of B
// in vectors. Scores are Q · Kᵀ with K transposed; the output is P · V.
//
// Each lane of C gathers its products in rising k, one FMA after the other, whatever R and V are.
#pragma once

#include <tenon/sdk/simd.h>

#include <cstdint>

namespace tenon::attention_cpu {
namespace {

namespace simd = sdk::simd;
using simd::F32;

// 12 x 2 or 6 x 4 sums of 32 registers; 6 x 2 or 2 x 4 of 16.
inline constexpr uint32_t kMaxRows = simd::kRegisters == 32 ? 12 : (simd::kLanes == 8 ? 6 : 4);
inline constexpr uint32_t kMaxRowsWide = simd::kRegisters == 32 ? 4 : 2;

// Rows of B that lie in memory as f32.
//
// What `product` asks of such a type: one load of V vectors stands for kStep rows of B; element<j>
// makes the j-th of them. Where it has an `accumulate`, that takes the place of an FMA, and where
// it has a `between`, that is called after each load.
struct WideRows {
  static constexpr uint32_t kStep = 1;
  static constexpr bool kEven = false;  // columns need not be a multiple of two vectors
  const float* first;
  uint64_t stride;
  WideRows from(uint32_t row) const { return {first + row * stride, stride}; }
  template <uint32_t V>
  [[gnu::always_inline]] void load(uint64_t row, uint32_t column, F32 (&values)[V]) const {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) {
      values[v] = simd::load(first + row * stride + column + v * simd::kLanes);
    }
  }
  template <int>
  [[gnu::always_inline]] static F32 element(F32 values) {
    return values;
  }
};

// Calls function(j as a type) for j = 0 … count - 1, unrolled.
template <int value>
struct Constant {
  static constexpr int kValue = value;
};
template <int count, int first = 0, class Function>
[[gnu::always_inline]] inline void each(const Function& function) {
  if constexpr (first < count) {
    function(Constant<first>());
    each<count, first + 1>(function);
  }
}

template <class Rows>
[[gnu::always_inline]] inline F32 accumulate(F32 value, F32 row, F32 sum) {
  if constexpr (requires { Rows::accumulate(value, row, sum); }) {
    return Rows::accumulate(value, row, sum);
  } else {
    return simd::fma(value, row, sum);
  }
}

// a: [R] rows, kStride apart; b: `count` loads of V vectors from `column`; c: [R], c_stride apart,
// at that column.
template <class Rows, uint32_t kStride, uint32_t R, uint32_t V>
[[gnu::noinline]] void product_block(const float* a, const Rows& b, uint32_t column, uint32_t count,
                                     float* c, uint64_t c_stride, bool resume) {
  F32 sum[R][V];
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) {
      sum[r][v] = resume ? simd::load(c + r * c_stride + v * simd::kLanes) : simd::zero();
    }
  }
  const Rows rows = b;
  for (uint64_t k = 0; k < count; ++k, a += Rows::kStep) {
    F32 loaded[V];
    rows.load(k, column, loaded);
    if constexpr (requires { rows.between(); }) rows.between();
    each<Rows::kStep>([&](auto j) __attribute__((always_inline)) {
      F32 row[V];
#pragma GCC unroll 4
      for (uint32_t v = 0; v < V; ++v) row[v] = Rows::template element<j.kValue>(loaded[v]);
#pragma GCC unroll 12
      for (uint32_t r = 0; r < R; ++r) {
        const F32 value = simd::set1(a[r * kStride + j.kValue]);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < V; ++v) sum[r][v] = accumulate<Rows>(value, row[v], sum[r][v]);
      }
    });
  }
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) simd::store(c + r * c_stride + v * simd::kLanes, sum[r][v]);
  }
}

template <class Rows>
using ProductBlock = void (*)(const float* a, const Rows& b, uint32_t column, uint32_t count,
                              float* c, uint64_t c_stride, bool resume);

// The block of `rows` <= kMost rows and V vectors.
template <class Rows, uint32_t kStride, uint32_t V, uint32_t kMost>
ProductBlock<Rows> product_for(uint32_t rows) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return product_for<Rows, kStride, V, kMost - 1>(rows);
  }
  return product_block<Rows, kStride, kMost, V>;
}

// At most kMaxRows rows, any number of columns that is a multiple of a vector, or of two where
// kEven says so.
template <uint32_t kStride, bool kEven, class Rows>
void product(const float* a, uint32_t rows, const Rows& b, uint32_t columns, uint32_t count,
             float* c, uint64_t c_stride, bool resume) {
  uint32_t column = 0;
  const auto advance = [&](ProductBlock<Rows> block, uint32_t vectors) {
    block(a, b, column, count, c + column, c_stride, resume);
    column += vectors * simd::kLanes;
  };
  if (rows <= kMaxRowsWide) {
    while (columns - column >= 4 * simd::kLanes) {
      advance(product_for<Rows, kStride, 4, kMaxRowsWide>(rows), 4);
    }
  }
  while (columns - column >= 2 * simd::kLanes) {
    advance(product_for<Rows, kStride, 2, kMaxRows>(rows), 2);
  }
  if constexpr (!kEven) {
    if (column < columns) advance(product_for<Rows, kStride, 1, kMaxRows>(rows), 1);
  }
}

// Steps of such a product, each with a `between`.
constexpr uint32_t product_steps(uint32_t rows, uint32_t columns, uint32_t count) {
  const uint32_t wide = (rows <= kMaxRowsWide ? 4 : 2) * simd::kLanes;
  return (columns + wide - 1) / wide * count;
}

}  // namespace
}  // namespace tenon::attention_cpu
