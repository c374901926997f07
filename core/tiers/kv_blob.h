// The bytes of one group's K/V of a block, or of a state, on their way between executors, stores
// and workers.
//
// They are not cleared: whoever makes a blob of some size fills it. The memory of large ones is
// kept for the next ones, since to have the system give new memory takes longer than to copy what
// goes there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
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

// A blob that several hold and nobody changes any more, or what follows a header in it; or none.
class SharedBlob {
 public:
  SharedBlob() = default;
  SharedBlob(std::nullopt_t) {}                       // NOLINT(google-explicit-constructor)
  SharedBlob(KvBlob&& blob, size_t header_bytes = 0)  // NOLINT(google-explicit-constructor)
      : blob_(std::make_shared<const KvBlob>(std::move(blob))), header_bytes_(header_bytes) {}

  bool has_value() const { return blob_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  std::span<const std::byte> bytes() const {
    return has_value() ? std::span(*blob_).subspan(header_bytes_) : std::span<const std::byte>();
  }
  size_t size() const { return bytes().size(); }

  friend bool operator==(const SharedBlob& held, std::span<const std::byte> bytes) {
    return held.has_value() && std::ranges::equal(held.bytes(), bytes);
  }
  friend bool operator==(const SharedBlob& held, std::nullopt_t) { return !held.has_value(); }

 private:
  std::shared_ptr<const KvBlob> blob_;
  size_t header_bytes_ = 0;
};

}  // namespace tenon
