#include "core/base/digest/xxh64.h"

#include <array>
#include <bit>
#include <cstring>

namespace tenon {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87u;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fu;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9u;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63u;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5u;
constexpr size_t kLanes = 4;
constexpr size_t kStripe = kLanes * sizeof(uint64_t);

// Little-endian, as all machines are that Tenon runs on.
template <typename T>
uint64_t word_at(const std::byte* at) {
  T word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t round_of(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

// The lanes over all whole stripes; `bytes` is what is left.
uint64_t stripes(std::span<const std::byte>& bytes, uint64_t seed) {
  std::array<uint64_t, kLanes> lanes = {seed + kPrime1 + kPrime2, seed + kPrime2, seed,
                                        seed - kPrime1};
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) {
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = round_of(lanes[i], word_at<uint64_t>(bytes.data() + i * sizeof(uint64_t)));
    }
  }
  uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                  std::rotl(lanes[3], 18);
  for (const uint64_t lane : lanes) hash = (hash ^ round_of(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

}  // namespace

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed) {
  const uint64_t length = bytes.size();
  uint64_t hash = length >= kStripe ? stripes(bytes, seed) : seed + kPrime5;
  hash += length;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    hash ^= round_of(0, word_at<uint64_t>(bytes.data()));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  if (bytes.size() >= 4) {
    hash ^= word_at<uint32_t>(bytes.data()) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
    bytes = bytes.subspan(4);
  }
  for (const std::byte byte : bytes) {
    hash ^= static_cast<uint64_t>(byte) * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace tenon
