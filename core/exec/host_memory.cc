#include "core/exec/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr uint64_t kSmallPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
// Two huge pages: below, rounding up to whole ones wastes more than it saves.
constexpr uint64_t kHugeFrom = 2 * kHugePage;

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Where huge pages pay, the address is one that they can begin at.
GuardedPages map(uint64_t bytes, int flags) {
  const bool huge = bytes >= kHugeFrom;
  const GuardedPages made = map_guarded(bytes, huge ? kHugePage : kSmallPage, flags);
  // Only advice: without huge pages everything works, slower.
  if (huge && made.data != nullptr) {
    (void)::madvise(made.data, round_up(bytes, kSmallPage), MADV_HUGEPAGE);
  }
  return made;
}

}  // namespace

Result<HostMemory> HostMemory::allocate(uint64_t bytes, Backing backing, std::string_view what) {
  HostMemory memory;
  if (bytes == 0) return memory;
  const int lazy = backing == Backing::lazy ? MAP_NORESERVE : 0;
  memory.pages_ = map(saturating_add(bytes, kCanaryBytes), lazy);
  if (memory.data() == nullptr) {
    return out_of_memory(std::string(what) + " needs " + std::to_string(bytes) +
                         " bytes, more than this machine grants");
  }
  memory.bytes_ = bytes;
  set_canary(memory.data() + bytes);
  return memory;
}

std::vector<MemoryPart> parts_to_back(std::span<const MemoryPart> allocations, uint64_t budget) {
  std::vector<MemoryPart> parts;
  const uint64_t share = budget / std::max<uint64_t>(1, allocations.size());
  for (const MemoryPart& part : allocations) {
    const uint64_t page = part.bytes >= kHugeFrom ? kHugePage : kSmallPage;
    const uint64_t pages = std::max<uint64_t>(1, std::min(share, part.bytes) / page);
    const uint64_t bytes = pages * page;
    if (part.bytes == 0 || bytes > budget) continue;
    budget -= bytes;
    parts.push_back({part.data, std::min(bytes, part.bytes)});
  }
  return parts;
}

void prefault(std::byte* data, uint64_t bytes) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  const uintptr_t begin = round_up(reinterpret_cast<uintptr_t>(data), kSmallPage);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kSmallPage * kSmallPage;
  if (begin < end) {
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
  }
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : pages_(std::exchange(other.pages_, {})), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HostMemory::~HostMemory() {
  unmap(pages_);
}

}  // namespace tenon
