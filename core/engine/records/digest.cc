#include "core/engine/records/digest.h"

#include <array>
#include <cstring>

namespace tenon {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
constexpr uint32_t kLanes = 8;  // independent chains, so that multiplications overlap

uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * kMultiplier;
  return state ^ (state >> 32);
}

}  // namespace

uint64_t extend_digest(uint64_t digest, const float* logits, uint64_t vocabulary) {
  std::array<uint64_t, kLanes> lanes;
  for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(digest, lane + 1);
  uint64_t at = 0;
  std::array<uint64_t, kLanes> words;
  for (; at + 2 * kLanes <= vocabulary; at += 2 * kLanes) {
    std::memcpy(words.data(), logits + at, sizeof(words));
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  if (at < vocabulary) {
    words = {};
    std::memcpy(words.data(), logits + at, (vocabulary - at) * sizeof(float));
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  uint64_t result = mix(digest, vocabulary);
  for (uint64_t lane : lanes) result = mix(result, lane);
  return result;
}

}  // namespace tenon
