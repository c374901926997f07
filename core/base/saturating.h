// Arithmetic on sizes that come from outside.
#pragma once

#include <cstdint>

namespace tenon {

// Adds and multiplies sizes; sticks at the largest value instead of wrapping around, which no
// allocation grants.
constexpr uint64_t saturating_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
constexpr uint64_t saturating_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

}  // namespace tenon
