// A generator of random numbers that gives the same ones everywhere (SplitMix64, Steele et al.
// 2014). The standard library's distributions differ between implementations.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>

namespace tenon {

class RandomDraws {
 public:
  explicit RandomDraws(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // In (0, 1).
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1.0p-53; }
  // In 0 … limit - 1. The bias of the remainder is below limit / 2^64.
  uint64_t below(uint64_t limit) { return bits() % limit; }
  double exponential() { return -std::log(uniform()); }
  double normal() {
    return std::sqrt(2 * exponential()) * std::cos(2 * std::numbers::pi * uniform());
  }
  template <typename T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace tenon
