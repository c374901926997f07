// The driver of the executor `cuda` over the emulator: a queue that does nothing until somebody
// waits, and then no more than was waited for; memory that counts. A copy reads and writes memory
// of the host when it runs; pinned memory that was given back by then is a failure.
#pragma once

#include <tenon/cuda/emulator.h>

#include <functional>
#include <map>
#include <memory>
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
  Result<void*> allocate_pinned(uint64_t bytes, std::string_view what) override;
  void free_pinned(void* at) override { pinned_.erase(static_cast<const std::byte*>(at)); }
  Status send(void* to_device, const void* from_host, uint64_t bytes) override;
  Status fetch(void* to_host, const void* from_device, uint64_t bytes) override;
  Status copy(void* to, const void* from, uint64_t bytes) override;
  Status wait() override;
  Result<uint64_t> mark() override;
  Status wait_for(uint64_t ticket) override;
  void* stream() const override { return &queue_; }
  Status launched(int error, std::string_view operation) const override;

  Emulator& machine() { return machine_; }
  uint64_t waiting() const { return queue_.waiting(); }
  // Copies from and to memory of the host that is not pinned: a device would make the caller wait.
  uint64_t pageable_copies() const { return pageable_copies_; }
  // Copies to the device that were put behind results nobody had waited for yet.
  uint64_t sent_ahead() const { return sent_ahead_; }

 private:
  struct Pinned {
    uint64_t bytes = 0;
    std::unique_ptr<std::byte[]> memory;
  };
  bool is_pinned(const void* at, uint64_t bytes) const;
  // `copy` runs on the queue; `host` is its side of the host.
  Status push_copy(const void* host, uint64_t bytes, std::function<bool()> copy);
  Status outcome();

  Emulator machine_;
  uint64_t memory_bytes_;
  std::map<const std::byte*, Pinned> pinned_;
  uint64_t pageable_copies_ = 0;
  uint64_t sent_ahead_ = 0;
  uint64_t fetches_waiting_ = 0;
  uint64_t marks_ = 0;
  uint64_t passed_ = 0;  // the latest mark that the queue has come to
  mutable LateQueue queue_;
  Status failed_;
};

}  // namespace tenon::cuda::test
