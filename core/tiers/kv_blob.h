// The bytes of one group's K/V of a block, or of a state, on their way between executors, stores
// and workers.
//
// They are not cleared: whoever makes a blob of some size fills it. The memory of large ones is
// kept for the next ones, since to have the system give new memory takes longer than to copy what
// goes there.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace tenon {

// Free memory that stays backed for blobs to come; what is freed beyond that goes back.
inline constexpr size_t kKeptBlobBytes = size_t{256} << 20;

// For KvBlob alone. Errors: std::bad_alloc, as a vector's. [any thread]
void* take_blob_memory(size_t bytes);
void give_blob_memory(void* data, size_t bytes);

template <typename T>
struct BlobAllocator {
  using value_type = T;
  BlobAllocator() = default;
  template <typename U>
  BlobAllocator(const BlobAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) { return static_cast<T*>(take_blob_memory(count * sizeof(T))); }
  void deallocate(T* data, size_t count) { give_blob_memory(data, count * sizeof(T)); }
  // Values that nobody gave stay what the memory has.
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Values>
  void construct(U* at, Values&&... values) {
    ::new (static_cast<void*>(at)) U(std::forward<Values>(values)...);
  }
  template <typename U>
  bool operator==(const BlobAllocator<U>&) const {
    return true;
  }
};

using KvBlob = std::vector<std::byte, BlobAllocator<std::byte>>;

// A copy, at the speed of memory: the vector's own goes byte by byte.
KvBlob blob_of(std::span<const std::byte> bytes);

}  // namespace tenon
