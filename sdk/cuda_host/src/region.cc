#include "sdk/cuda_host/src/region.h"

#include <algorithm>
#include <cstring>

namespace tenon::cuda {
namespace {

// As f32 and as bf16 it is a large negative number, as an index far outside of anything.
constexpr int kNothing = 0xfb;
constexpr uint64_t kAlignment = 256;

}  // namespace

Region::Region(std::string what, uint64_t size, bool is_shared)
    : name(std::move(what)),
      shared(is_shared),
      bytes(size),
      memory(new std::byte[size + kAlignment]),
      states(size),
      pages_((size + kPage - 1) / kPage) {
  const auto at = reinterpret_cast<uintptr_t>(memory.get());
  base = memory.get() + (kAlignment - at % kAlignment) % kAlignment;
  forget();
}

void Region::forget() {
  std::memset(base, kNothing, bytes);
  std::ranges::fill(states, ByteState::nothing);
}

void Region::forget_writers(uint64_t first, uint64_t count) {
  for (uint64_t byte = first; byte < first + count; ++byte) {
    if (const auto& page = pages_[byte / kPage]; page != nullptr) page[byte % kPage].written = {};
  }
}

}  // namespace tenon::cuda
