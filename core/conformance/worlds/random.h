// Random numbers of a case: the same from the same seed, everywhere.
#pragma once

#include <cstdint>

namespace tenon {

class CaseRandom {
 public:
  explicit CaseRandom(uint64_t seed) : state_(seed * 2 + 1) {}

  // SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // In [0, bound); 0 where bound is.
  uint32_t below(uint32_t bound) {
    return bound == 0 ? 0 : static_cast<uint32_t>((next() >> 33) % bound);
  }
  bool one_in(uint32_t count) { return below(count) == 0; }
  // In [-1, 1).
  float value() { return static_cast<float>(static_cast<double>(next() >> 40) / (1 << 23) - 1.0); }

 private:
  uint64_t state_;
};

}  // namespace tenon
