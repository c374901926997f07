#include "tests/device/late/device_memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon::test {
namespace {

constexpr int kOpen = PROT_READ | PROT_WRITE;

// A test that goes on without its guards would prove nothing.
[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

}  // namespace

MemorySpace::MemorySpace(uint64_t bytes, bool accessible) : bytes_(bytes), accessible_(accessible) {
  void* mapped = mmap(nullptr, bytes, accessible ? kOpen : PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) give_up("mapping a memory space");
  base_ = static_cast<std::byte*>(mapped);
}

MemorySpace::~MemorySpace() {
  munmap(base_, bytes_);
}

std::byte* MemorySpace::allocate(uint64_t bytes, uint64_t alignment) {
  const uint64_t at = (used_ + alignment - 1) / alignment * alignment;
  if (at > bytes_ || bytes > bytes_ - at) return nullptr;
  used_ = at + bytes;
  const bool was_accessible = accessible_;
  set_accessible(true);
  std::memset(base_ + at, 0xff, bytes);
  set_accessible(was_accessible);
  return base_ + at;
}

void MemorySpace::set_accessible(bool accessible) {
  if (accessible == accessible_) return;
  if (mprotect(base_, bytes_, accessible ? kOpen : PROT_NONE) != 0) give_up("mprotect");
  accessible_ = accessible;
}

DeviceMemory::DeviceMemory(uint64_t bytes_a_space, bool guarded)
    : device(bytes_a_space, !guarded),
      pageable(bytes_a_space, true),
      pinned(bytes_a_space, true),
      guarded_(guarded) {}

void DeviceMemory::enter_device() {
  if (!guarded_) return;
  pageable.set_accessible(false);
  device.set_accessible(true);
}

void DeviceMemory::leave_device() {
  if (!guarded_) return;
  device.set_accessible(false);
  pageable.set_accessible(true);
}

}  // namespace tenon::test
