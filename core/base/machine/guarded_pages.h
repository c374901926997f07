// Memory between pages that nobody may touch, for what plugins write into. Whoever writes far
// beyond the room that it was given crashes in the call that wrote, which is then named
// (running_calls.h), and not somewhere else later. Who writes a little beyond it meets a canary
// (canary.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace tenon {

inline constexpr size_t kGuardBytes = size_t{256} << 10;  // on either side; only addresses

struct GuardedPages {
  std::byte* data = nullptr;  // zeroed; null: the system granted none
  void* mapping = nullptr;    // guards included
  size_t mapped_bytes = 0;
};
// Pages for `bytes`, beginning at a multiple of `alignment`, which is a power of two. `flags` are
// added to those of private memory.
GuardedPages map_guarded(size_t bytes, size_t alignment, int flags) noexcept;
void unmap(const GuardedPages& pages) noexcept;

namespace detail {
// At the end of their pages, aligned to 64. Null: the system granted none.
void* allocate_guarded(size_t bytes) noexcept;
void free_guarded(void* data, size_t bytes) noexcept;
}  // namespace detail

template <typename T>
class GuardedAllocator {
 public:
  using value_type = T;
  static_assert(alignof(T) <= 64);

  GuardedAllocator() = default;
  template <typename Other>
  GuardedAllocator(const GuardedAllocator<Other>&) noexcept {}  // NOLINT: as allocators are

  T* allocate(size_t count) {
    if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_alloc();
    void* data = detail::allocate_guarded(count * sizeof(T));
    if (data == nullptr) throw std::bad_alloc();
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t count) noexcept { detail::free_guarded(data, count * sizeof(T)); }
  bool operator==(const GuardedAllocator&) const = default;
};

// Grows as vectors do, a mapping each time: for rooms whose memory is used again.
template <typename T>
using GuardedVector = std::vector<T, GuardedAllocator<T>>;

}  // namespace tenon
