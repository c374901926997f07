// Memory with pages on both sides that nobody may touch: whoever reads or writes beyond an end
// crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/base/machine/guarded_pages.h"

namespace tenon {

class GuardedMemory {
 public:
  // Aligned to 64. Ends at the forbidden page, or as near to it as the alignment allows: what lies
  // between is looked at by `intact`. With `at_begin` it begins at one instead. Every byte is set,
  // to what makes floating-point numbers NaN.
  explicit GuardedMemory(uint64_t bytes, bool at_begin = false);
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  void* get() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(get());
  }
  template <typename T>
  static GuardedMemory copy_of(std::span<const T> values, bool at_begin = false) {
    GuardedMemory made(values.size_bytes(), at_begin);
    if (!values.empty()) std::memcpy(made.get(), values.data(), values.size_bytes());
    return made;
  }
  // Whether the bytes between it and the pages are what they were.
  bool intact() const;

 private:
  GuardedPages pages_;
  uint64_t page_bytes_ = 0;  // of those that may be touched
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tenon
