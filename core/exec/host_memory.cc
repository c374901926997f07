#include "core/exec/host_memory.h"

#include <sys/mman.h>

#include <string>
#include <utility>

namespace tenon {
namespace {

// Two huge pages: below, rounding up to whole ones wastes more than it saves.
constexpr uint64_t kHugeFrom = uint64_t{4} << 20;

}  // namespace

Result<HostMemory> HostMemory::allocate(uint64_t bytes, Backing backing, std::string_view what) {
  HostMemory memory;
  if (bytes == 0) return memory;
  const int lazy = backing == Backing::lazy ? MAP_NORESERVE : 0;
  void* address = bytes > PTRDIFF_MAX ? MAP_FAILED
                                      : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | lazy, -1, 0);
  if (address == MAP_FAILED) {
    return out_of_memory(std::string(what) + " needs " + std::to_string(bytes) +
                         " bytes, more than this machine grants");
  }
  // Only advice: without huge pages everything works, slower.
  if (bytes >= kHugeFrom) (void)::madvise(address, bytes, MADV_HUGEPAGE);
  memory.data_ = static_cast<std::byte*>(address);
  memory.bytes_ = bytes;
  return memory;
}

void prefault(std::byte* data, uint64_t bytes) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  constexpr uint64_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  if (begin < end) {
    (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
  }
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace tenon
