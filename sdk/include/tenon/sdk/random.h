// Counter-based random numbers: a value is a function of its key, no state survives a call.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
#pragma once

#include <tenon/sampler.h>

#include <array>
#include <cstdint>

namespace tenon::sdk {

using Philox4 = std::array<uint32_t, 4>;

// Ten rounds over `counter` with the 64-bit `key`.
constexpr Philox4 philox(Philox4 counter, uint64_t key) noexcept {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1), 53 bits, for (seed, sample, position, purpose); `index` counts the draws
// that one purpose needs at one position.
constexpr double uniform(const RandomKey& key, RandomPurpose purpose, uint32_t index = 0) noexcept {
  const Philox4 bits =
      philox({key.position, key.sample, static_cast<uint32_t>(purpose), index}, key.seed);
  const uint64_t value = (uint64_t{bits[0]} << 32) | bits[1];
  return static_cast<double>(value >> 11) * 0x1.0p-53;
}

}  // namespace tenon::sdk
