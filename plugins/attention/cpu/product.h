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
inline constexpr uint32_t kMaxRowsWide = simd::kRegisters == 32 ? 6 : 2;

// Rows of B that lie in memory as f32.
struct WideRows {
  const float* first;
  uint64_t stride;
  [[gnu::always_inline]] F32 load(uint64_t row, uint32_t column) const {
    return simd::load(first + row * stride + column);
  }
  [[gnu::always_inline]] void between() const {}
};

// a: [R] rows, a_stride apart; b: rows 0 … count-1, of which V vectors from `column`; c: [R],
// c_stride apart, at that column.
template <class Rows, uint32_t R, uint32_t V>
[[gnu::noinline]] void product_block(const float* a, uint64_t a_stride, const Rows& b,
                                     uint32_t column, uint32_t count, float* c, uint64_t c_stride,
                                     bool resume) {
  F32 sum[R][V];
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) {
      sum[r][v] = resume ? simd::load(c + r * c_stride + v * simd::kLanes) : simd::zero();
    }
  }
  const Rows rows = b;
  for (uint64_t k = 0; k < count; ++k) {
    F32 row[V];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) row[v] = rows.load(k, column + v * simd::kLanes);
    rows.between();
#pragma GCC unroll 12
    for (uint32_t r = 0; r < R; ++r) {
      const F32 value = simd::set1(a[r * a_stride + k]);
#pragma GCC unroll 4
      for (uint32_t v = 0; v < V; ++v) sum[r][v] = simd::fma(value, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 12
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < V; ++v) simd::store(c + r * c_stride + v * simd::kLanes, sum[r][v]);
  }
}

template <class Rows>
using ProductBlock = void (*)(const float* a, uint64_t a_stride, const Rows& b, uint32_t column,
                              uint32_t count, float* c, uint64_t c_stride, bool resume);

template <class Rows, uint32_t V>
ProductBlock<Rows> product_for(uint32_t rows) {
  switch (rows) {
    case 1:
      return product_block<Rows, 1, V>;
    case 2:
      return product_block<Rows, 2, V>;
    default:
      break;
  }
  if constexpr (V < 4 || kMaxRowsWide > 2) {
    if (rows == 3) return product_block<Rows, 3, V>;
    if (rows == 4) return product_block<Rows, 4, V>;
  }
  if constexpr (kMaxRows > 4 && (V < 4 || kMaxRowsWide > 2)) {
    if (rows == 5) return product_block<Rows, 5, V>;
    if (rows == 6) return product_block<Rows, 6, V>;
  }
  if constexpr (kMaxRows > 6 && V < 4) {
    switch (rows) {
      case 7:
        return product_block<Rows, 7, V>;
      case 8:
        return product_block<Rows, 8, V>;
      case 9:
        return product_block<Rows, 9, V>;
      case 10:
        return product_block<Rows, 10, V>;
      case 11:
        return product_block<Rows, 11, V>;
      default:
        return product_block<Rows, 12, V>;
    }
  }
  return nullptr;
}

// At most kMaxRows rows, any number of columns that is a multiple of a vector.
template <class Rows>
void product(const float* a, uint64_t a_stride, uint32_t rows, const Rows& b, uint32_t columns,
             uint32_t count, float* c, uint64_t c_stride, bool resume) {
  uint32_t column = 0;
  const auto advance = [&](ProductBlock<Rows> block, uint32_t vectors) {
    block(a, a_stride, b, column, count, c + column, c_stride, resume);
    column += vectors * simd::kLanes;
  };
  if (rows <= kMaxRowsWide) {
    while (columns - column >= 4 * simd::kLanes) advance(product_for<Rows, 4>(rows), 4);
  }
  while (columns - column >= 2 * simd::kLanes) advance(product_for<Rows, 2>(rows), 2);
  if (column < columns) advance(product_for<Rows, 1>(rows), 1);
}

}  // namespace
}  // namespace tenon::attention_cpu
