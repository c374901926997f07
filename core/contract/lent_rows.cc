#include "core/contract/lent_rows.h"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

// Words side by side, in vector registers of the least that a processor has.
using Words = uint32_t __attribute__((vector_size(16)));
constexpr size_t kVectors = 4;
constexpr size_t kStepBytes = kVectors * sizeof(Words);

// Counts the calls of a thread, so that each looks at another part.
uint32_t turn_of_this_thread() {
  thread_local uint32_t turn = 0;
  return turn++;
}

// Sums of words, and sums of these, in which a word counts by its place (Fletcher's checksum).
struct Sums {
  Words sums[kVectors] = {}, places[kVectors] = {};

  void add(const std::byte* at) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kVectors; ++i) {
      Words words;
      std::memcpy(&words, at + i * sizeof(Words), sizeof(Words));
      sums[i] += words;
      places[i] += sums[i];
    }
  }
  uint64_t mixed(uint64_t into) const {
    for (const Words* one : {sums, places}) {
      for (size_t i = 0; i < kStepBytes / sizeof(uint32_t); ++i) {
        into = (into ^ one[i / 4][i % 4]) * 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
        into ^= into >> 32;
      }
    }
    return into;
  }
};

}  // namespace

uint64_t sum_of_bytes(const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const std::byte*>(data);
  Sums sums;
  size_t left = bytes;
  for (; left >= kStepBytes; left -= kStepBytes, at += kStepBytes) sums.add(at);
  if (left > 0) {
    std::byte last[kStepBytes] = {};
    std::memcpy(last, at, left);
    sums.add(last);
  }
  return sums.mixed(bytes);
}

void LentRows::add(const void* data, size_t bytes) {
  if (data == nullptr || bytes == 0) return;
  parts_.push_back({data, bytes, sum_of_bytes(data, bytes)});
}

void LentRows::add_part(const void* data, size_t bytes) {
  if (bytes <= kPartBytes) return add(data, bytes);
  const size_t windows = (bytes + kPartBytes - 1) / kPartBytes;
  const size_t begin = turn_of_this_thread() % windows * kPartBytes;
  add(static_cast<const std::byte*>(data) + begin, std::min(kPartBytes, bytes - begin));
}

void LentRows::add_rows(const void* data, size_t row_bytes, size_t stride_bytes, size_t rows) {
  if (data == nullptr || row_bytes == 0 || rows == 0) return;
  const size_t most = std::clamp<size_t>(kPartBytes / row_bytes, 1, rows);
  const size_t first = most == rows ? 0 : turn_of_this_thread() % rows;
  for (size_t i = 0; i < most; ++i) {
    add(static_cast<const std::byte*>(data) + (first + i) % rows * stride_bytes, row_bytes);
  }
}

bool LentRows::unchanged() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return sum_of_bytes(part.data, part.bytes) == part.sum;
  });
}

}  // namespace tenon
