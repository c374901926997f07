// Arrays for launches that are counted or timed: full of numbers, on whatever machine a driver is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/device/device_memory.h"

namespace tenon::cuda::bench {

class CaseArrays {
 public:
  // What a step reads from memory and not from caches is there so often that its copies fill
  // `cold_bytes`; launches take one after the other. 0: once.
  CaseArrays(Driver& driver, uint64_t cold_bytes)
      : driver_(driver), memory_(driver), cold_bytes_(cold_bytes) {}

  // The first thing that failed; arrays made since are null.
  const Status& status() const { return status_; }

  float* floats(uint64_t count);              // within ±1
  void* bfloats(uint64_t count);              // likewise
  uint16_t* half_scales(uint64_t count);      // f16, 0.01
  uint8_t* bytes(uint64_t count, int below);  // below `below`
  // Whatever kernels write before they read it; in the emulator there is nothing.
  template <typename T>
  T* room(uint64_t count) {
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  template <typename T>
  const T* upload(const std::vector<T>& values) {
    void* const at = allocate(values.size() * sizeof(T));
    send(at, values.data(), values.size() * sizeof(T));
    return static_cast<const T*>(at);
  }
  // As many of what `make` makes, of `bytes` each, as no cache keeps.
  template <typename Make>
  auto cold(uint64_t bytes, const Make& make) {
    std::vector<decltype(make())> copies;
    for (uint64_t all = 0; copies.empty() || all < cold_bytes_; all += bytes) {
      copies.push_back(make());
    }
    return copies;
  }

 private:
  void* allocate(uint64_t bytes);
  void send(void* to, const void* from, uint64_t bytes);
  template <typename T, typename Next>
  T* filled(uint64_t count, const Next& next);

  Driver& driver_;
  DeviceMemory memory_;
  uint64_t cold_bytes_;
  uint64_t state_ = 1;
  Status status_;
};

}  // namespace tenon::cuda::bench
