#include "bench/cuda/case_arrays.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tenon::cuda::bench {
namespace {

// Of random numbers; arrays repeat them.
constexpr uint64_t kPatternBytes = uint64_t{1} << 20;
constexpr uint16_t kHundredth = 0x211f;  // f16

float within_one(uint64_t random) {
  return static_cast<float>(random >> 40) / static_cast<float>(1 << 23) - 1.0f;
}

}  // namespace

void* CaseArrays::allocate(uint64_t bytes) {
  if (!status_.ok()) return nullptr;
  Result<void*> at = memory_.bytes(bytes, "an array");
  if (at.ok()) return *at;
  status_ = at.take_status();
  return nullptr;
}

void CaseArrays::send(void* to, const void* from, uint64_t bytes) {
  if (status_.ok() && bytes > 0) status_ = driver_.send(to, from, bytes);
  if (status_.ok()) status_ = driver_.wait();
}

template <typename T, typename Next>
T* CaseArrays::filled(uint64_t count, const Next& next) {
  std::vector<T> pattern(std::min(count, kPatternBytes / sizeof(T)));
  for (T& value : pattern) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    value = next(state_);
  }
  T* const to = room<T>(count);
  for (uint64_t done = 0; done < count && status_.ok(); done += pattern.size()) {
    const uint64_t part = std::min<uint64_t>(pattern.size(), count - done);
    send(to + done, pattern.data(), part * sizeof(T));
  }
  return to;
}

float* CaseArrays::floats(uint64_t count) {
  return filled<float>(count, within_one);
}
void* CaseArrays::bfloats(uint64_t count) {
  return filled<uint16_t>(count, [](uint64_t random) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(within_one(random)) >> 16);
  });
}
uint16_t* CaseArrays::half_scales(uint64_t count) {
  return filled<uint16_t>(count, [](uint64_t) { return kHundredth; });
}
uint8_t* CaseArrays::bytes(uint64_t count, int below) {
  return filled<uint8_t>(count, [below](uint64_t random) {
    return static_cast<uint8_t>((random >> 33) % static_cast<uint64_t>(below));
  });
}

}  // namespace tenon::cuda::bench
