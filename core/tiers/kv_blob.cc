#include "core/tiers/kv_blob.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace tenon {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPools = false;  // so that a use after the end is seen
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kPools = false;
#else
constexpr bool kPools = true;
#endif
#else
constexpr bool kPools = true;
#endif

constexpr size_t kLeastBytes = size_t{64} << 10;  // smaller ones are the usual allocator's
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlabBytes = size_t{8} << 20;  // asked of the system at once

constexpr size_t rounded_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Places of equal sizes, cut from slabs that are never unmapped: a place that is not kept gives its
// pages back and keeps its addresses.
class BlobPool {
 public:
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    Places& places = by_size_[bytes];
    if (!places.backed.empty()) {
      kept_bytes_ -= bytes;
      return take_last(places.backed);
    }
    if (places.bare.empty()) cut_slab(bytes, places.bare);
    return take_last(places.bare);
  }

  void give(std::byte* data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    Places& places = by_size_[bytes];
    if (kept_bytes_ + bytes <= kKeptBlobBytes) {
      kept_bytes_ += bytes;
      places.backed.push_back(data);
      return;
    }
    ::madvise(data, bytes, MADV_DONTNEED);
    places.bare.push_back(data);
  }

 private:
  struct Places {
    std::vector<std::byte*> backed, bare;  // free; the latest last
  };

  static std::byte* take_last(std::vector<std::byte*>& places) {
    std::byte* const data = places.back();
    places.pop_back();
    return data;
  }

  // Huge pages are backed a hundred times as fast, byte by byte.
  static void cut_slab(size_t bytes, std::vector<std::byte*>& places) {
    const size_t slab = rounded_up(std::max(bytes, kSlabBytes), kHugePage);
    places.reserve(places.size() + slab / bytes);
    void* const mapped = ::mmap(nullptr, slab + kHugePage, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(mapped);
    std::byte* const first =
        static_cast<std::byte*>(mapped) + (rounded_up(address, kHugePage) - address);
    ::madvise(first, slab, MADV_HUGEPAGE);
    for (size_t place = slab / bytes; place-- > 0;) places.push_back(first + place * bytes);
  }

  std::mutex mutex_;
  std::unordered_map<size_t, Places> by_size_;
  size_t kept_bytes_ = 0;
};

// Blobs may outlive everything else.
BlobPool& pool() {
  static BlobPool* const kPool = new BlobPool;
  return *kPool;
}

bool is_pooled(size_t bytes) {
  return kPools && bytes >= kLeastBytes;
}

}  // namespace

void* take_blob_memory(size_t bytes) {
  if (bytes > SIZE_MAX / 4) throw std::bad_alloc();  // AddressSanitizer's new would end the program
  if (!is_pooled(bytes)) return ::operator new(bytes);
  return pool().take(rounded_up(bytes, kPage));
}

void give_blob_memory(void* data, size_t bytes) {
  if (!is_pooled(bytes)) return ::operator delete(data);
  pool().give(static_cast<std::byte*>(data), rounded_up(bytes, kPage));
}

KvBlob blob_of(std::span<const std::byte> bytes) {
  KvBlob copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

}  // namespace tenon
