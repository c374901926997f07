#include "core/base/digest/xxh64.h"

#include <bit>
#include <cstring>

namespace tenon {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87u;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fu;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9u;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63u;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5u;
constexpr size_t kStripe = 4 * sizeof(uint64_t);

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

// The four lanes over all whole stripes; `bytes` is what is left. They are variables of their own,
// since GCC keeps an array of them in memory, where each stripe waits for the one before.
uint64_t stripes(std::span<const std::byte>& bytes, uint64_t seed) {
  uint64_t lane0 = seed + kPrime1 + kPrime2, lane1 = seed + kPrime2, lane2 = seed,
           lane3 = seed - kPrime1;
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size() / kStripe * kStripe;
  for (; at != end; at += kStripe) {
    lane0 = round_of(lane0, word_at<uint64_t>(at));
    lane1 = round_of(lane1, word_at<uint64_t>(at + 8));
    lane2 = round_of(lane2, word_at<uint64_t>(at + 16));
    lane3 = round_of(lane3, word_at<uint64_t>(at + 24));
  }
  bytes = bytes.subspan(bytes.size() / kStripe * kStripe);
  uint64_t hash =
      std::rotl(lane0, 1) + std::rotl(lane1, 7) + std::rotl(lane2, 12) + std::rotl(lane3, 18);
  for (const uint64_t lane : {lane0, lane1, lane2, lane3}) {
    hash = (hash ^ round_of(0, lane)) * kPrime1 + kPrime4;
  }
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
