// The driver of the executor `cuda` over the emulator: a queue that does nothing until somebody
// waits, and memory that counts.
#pragma once

#include <tenon/cuda/emulator.h>

#include <string>

#include "core/exec/cuda/driver.h"

namespace tenon::cuda::test {

class EmulatedDriver final : public Driver {
 public:
  explicit EmulatedDriver(uint64_t memory_bytes = uint64_t{1} << 30, uint64_t seed = 1);

  std::string device_name() const override { return "an emulated device"; }
  uint64_t free_bytes() const override { return memory_bytes_ - machine_.allocated_bytes(); }
  Result<void*> allocate(uint64_t bytes, std::string_view what) override;
  void free(void* at) override { machine_.free(at); }
  Status send(void* to_device, const void* from_host, uint64_t bytes) override;
  Status fetch(void* to_host, const void* from_device, uint64_t bytes) override;
  Status copy(void* to, const void* from, uint64_t bytes) override;
  Status wait() override;
  void* stream() const override { return &queue_; }
  Status launched(int error, std::string_view operation) const override;

  Emulator& machine() { return machine_; }
  uint64_t waiting() const { return queue_.waiting(); }

 private:
  Status out_of_range(std::string_view what) const;

  Emulator machine_;
  uint64_t memory_bytes_;
  mutable LateQueue queue_;
  Status failed_;
};

}  // namespace tenon::cuda::test
