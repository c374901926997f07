// CUDA's driver with the names of EmulatedDriver, for the same tests of the executor. It counts
// what is asked of it, and fails what it is told to fail; of what a device does it sees nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/exec/cuda/device/cublaslt_library.h"
#include "core/exec/cuda/device/runtime_driver.h"
#include "core/exec/cuda/executor.h"

namespace tenon::cuda::test {

class RealDriver final : public Driver {
 public:
  // Who makes orders here is the device.
  explicit RealDriver(uint64_t memory_bytes = uint64_t{1} << 30, uint64_t = 1);
  // A test that ends while something runs still uses memory that it gives back.
  ~RealDriver() override;

  std::string device_name() const override { return driver_->device_name(); }
  uint32_t devices() const override { return driver_->devices(); }
  Status use_device(uint32_t index) override { return driver_->use_device(index); }
  std::string device_id() const override { return driver_->device_id(); }
  Result<std::string> share(void* at) override { return driver_->share(at); }
  Result<void*> reach(const std::string& handle) override { return driver_->reach(handle); }
  void let_go(void* reached) override { driver_->let_go(reached); }
  uint64_t free_bytes() const override;
  Result<void*> allocate(uint64_t bytes, std::string_view what) override;
  void free(void* at) override;
  Result<void*> allocate_pinned(uint64_t bytes, std::string_view what) override;
  void free_pinned(void* at) override;
  Status send(void* to_device, const void* from_host, uint64_t bytes) override;
  Status fetch(void* to_host, const void* from_device, uint64_t bytes) override;
  Status copy(void* to, const void* from, uint64_t bytes) override;
  Status wait() override;
  Result<uint64_t> mark() override;
  Status wait_for(uint64_t ticket) override;
  void* stream() const override { return driver_->stream(); }
  Status begin_capture() override { return driver_->begin_capture(); }
  Result<DeviceGraph> end_capture() override;
  Status replay(void* graph) override;
  void drop(void* graph) override;
  Status launched(int error, std::string_view operation) const override {
    return driver_->launched(error, operation);
  }

  // Calls that put something on the queue, but for launches, and that nobody has waited for.
  uint64_t waiting() const { return put_ - waited_; }
  uint64_t pageable_copies() const { return pageable_copies_; }
  uint64_t sent_ahead() const { return sent_ahead_; }
  uint64_t fetched_bytes() const { return fetched_bytes_; }
  uint64_t replays() const { return replays_; }
  uint64_t captures() const { return captures_; }
  size_t graphs() const { return graphs_; }
  void refuse_captures() { refuses_captures_ = true; }
  // The n-th call from now on that puts something on the queue fails.
  void fail_call(uint64_t n, std::string message) {
    calls_until_fault_ = n;
    fault_ = std::move(message);
  }

 private:
  // Of a call that puts something on the queue, whose side of the host is `host`.
  Status called(const void* host = nullptr);

  std::shared_ptr<Driver> driver_;
  uint64_t memory_bytes_;
  uint64_t allocated_bytes_ = 0;
  std::map<void*, uint64_t> sizes_;
  std::map<const void*, uint64_t> pinned_;
  std::map<uint64_t, uint64_t> put_before_;  // by ticket
  uint64_t put_ = 0;
  uint64_t waited_ = 0;
  uint64_t last_fetch_ = 0;
  uint64_t pageable_copies_ = 0;
  uint64_t sent_ahead_ = 0;
  uint64_t fetched_bytes_ = 0;
  uint64_t captures_ = 0;
  uint64_t replays_ = 0;
  size_t graphs_ = 0;
  bool refuses_captures_ = false;
  uint64_t calls_until_fault_ = 0;
  std::string fault_;
};

// In the place of cuBLASLt's double: the library itself.
struct RealGuest {
  explicit RealGuest(RealDriver&) {}
};
inline LtLoader loads(const std::shared_ptr<RealGuest>&) {
  return &load_cublaslt;
}

}  // namespace tenon::cuda::test
