// Device memory that is given back together, and memory of the host that copies reach without
// waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/exec/cuda/device/driver.h"

namespace tenon::cuda {

class DeviceMemory {
 public:
  explicit DeviceMemory(Driver& driver) : driver_(&driver) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    for (void* at : all_) driver_->free(at);
  }

  // Null where `count` is 0.
  template <typename T>
  Result<T*> array(uint64_t count, std::string_view what) {
    TENON_ASSIGN_OR_RETURN(void* const at, bytes(count * sizeof(T), what));
    return static_cast<T*>(at);
  }
  Result<void*> bytes(uint64_t count, std::string_view what) {
    if (count == 0) return static_cast<void*>(nullptr);
    TENON_ASSIGN_OR_RETURN(void* const at, driver_->allocate(count, what));
    all_.push_back(at);
    held_ += count;
    return at;
  }
  uint64_t held_bytes() const { return held_; }
  Driver& driver() const { return *driver_; }

 private:
  Driver* driver_;
  std::vector<void*> all_;
  uint64_t held_ = 0;
};

// Pinned memory of the host.
class PinnedMemory {
 public:
  explicit PinnedMemory(Driver& driver) : driver_(&driver) {}
  PinnedMemory(PinnedMemory&& other) noexcept
      : driver_(other.driver_),
        at_(std::exchange(other.at_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  ~PinnedMemory() {
    if (at_ != nullptr) driver_->free_pinned(at_);
  }

  // Room for at least that much. What stood there is lost where it grows, so nothing on the queue
  // may still need it.
  Status reserve(uint64_t bytes, std::string_view what) {
    if (bytes <= bytes_) return {};
    if (at_ != nullptr) driver_->free_pinned(std::exchange(at_, nullptr));
    bytes_ = 0;
    TENON_ASSIGN_OR_RETURN(at_, driver_->allocate_pinned(bytes, what));
    bytes_ = bytes;
    return {};
  }
  std::byte* data() const { return static_cast<std::byte*>(at_); }
  uint64_t bytes() const { return bytes_; }

 private:
  Driver* driver_;
  void* at_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tenon::cuda
