// Device memory that is given back together.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/exec/cuda/driver.h"

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

}  // namespace tenon::cuda
