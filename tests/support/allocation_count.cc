#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

// Clang's thread sanitizer has these operators already, and lets nobody replace them.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TENON_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef TENON_COUNTS_ALLOCATIONS
#define TENON_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<uint64_t> calls{0};
}  // namespace

namespace tenon::test {
uint64_t allocation_count() {
  return calls;
}
bool counts_allocations() {
  return TENON_COUNTS_ALLOCATIONS == 1;
}
}  // namespace tenon::test

#if TENON_COUNTS_ALLOCATIONS
// Arrays end in these too, but for sanitizers, which bring pairs of their own.
void* operator new(std::size_t bytes) {
  ++calls;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++calls;
  const auto align = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++calls;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#endif
