#include "sdk/cuda_host/src/region.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

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

void Region::tell_apart(Page& page, uint64_t together) {
  const int shift = std::countr_zero(together);
  auto cells = std::make_unique<Cell[]>(kPage >> shift);
  if (page.cells != nullptr) {
    const int finer = page.shift - shift;
    for (uint64_t i = 0; i < kPage >> shift; ++i) cells[i] = page.cells[i >> finer];
  }
  page = {std::move(cells), shift};
}

void Region::forget_writers(uint64_t first, uint64_t count) {
  const uint64_t most = most_together(first, count);
  for (uint64_t byte = first, together = 0; byte < first + count; byte += together) {
    together = most;
    if (pages_[byte / kPage].cells != nullptr) cell(byte, most, together).written = {};
  }
}

}  // namespace tenon::cuda
