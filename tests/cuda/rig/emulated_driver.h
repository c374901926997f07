// The driver of the executor `cuda` over the emulator: a queue that does nothing until somebody
// waits, and then no more than was waited for; memory that counts. A copy reads and writes memory
// of the host when it runs; pinned memory that was given back by then is a failure.
//
// A captured graph is its launches as they were recorded. Before it runs, nothing stands in a
// step's activations, and nothing in the arrays that a step sends after it: what a replay does not
// write itself, and what the next step does not send, is found when it is read. Copies, waiting and
// allocation fail while launches are captured, and so does a graph that is dropped too early.
#pragma once

#include <tenon/cuda/emulator.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/device/driver.h"

namespace tenon::cuda::test {

class EmulatedDriver final : public Driver {
 public:
  explicit EmulatedDriver(uint64_t memory_bytes = uint64_t{1} << 30, uint64_t seed = 1);

  std::string device_name() const override { return "an emulated device"; }
  uint32_t devices() const override { return devices_; }
  Status use_device(uint32_t index) override {
    device_ = index;
    return {};
  }
  std::string device_id() const override { return "emulated:" + std::to_string(device_); }
  Result<std::string> share(void* at) override;
  Result<void*> reach(const std::string& handle) override;
  void let_go(void* reached) override { (void)reached; }
  uint64_t free_bytes() const override { return memory_bytes_ - machine_.allocated_bytes(); }
  Result<void*> allocate(uint64_t bytes, std::string_view what) override;
  void free(void* at) override;
  Result<void*> allocate_pinned(uint64_t bytes, std::string_view what) override;
  void free_pinned(void* at) override { pinned_.erase(static_cast<const std::byte*>(at)); }
  Status send(void* to_device, const void* from_host, uint64_t bytes) override;
  Status fetch(void* to_host, const void* from_device, uint64_t bytes) override;
  Status copy(void* to, const void* from, uint64_t bytes) override;
  Status wait() override;
  Result<uint64_t> mark() override;
  Status wait_for(uint64_t ticket) override;
  void* stream() const override { return capturing_ ? &captured_ : &queue_; }
  Status begin_capture() override;
  Result<DeviceGraph> end_capture() override;
  Status replay(void* graph) override;
  void drop(void* graph) override { graphs_.erase(graph); }
  Status launched(int error, std::string_view operation) const override;

  Emulator& machine() { return machine_; }
  // Other ranks, which are threads, may reach this device's memory. Their machines outlive its use.
  void show_memory() { shows_memory_ = true; }
  // As if this process saw so many devices.
  void show_devices(uint32_t count) { devices_ = count; }
  uint64_t waiting() const { return queue_.waiting(); }
  // Copies from and to memory of the host that is not pinned: a device would make the caller wait.
  uint64_t pageable_copies() const { return pageable_copies_; }
  // Copies to the device that were put after results nobody had waited for yet.
  uint64_t sent_ahead() const { return sent_ahead_; }
  // That results took on their way back.
  uint64_t fetched_bytes() const { return fetched_bytes_; }
  uint64_t replays() const { return replays_; }
  uint64_t captures() const { return captures_; }
  bool capturing() const { return capturing_; }
  size_t graphs() const { return graphs_.size(); }
  void refuse_captures() { refuses_captures_ = true; }
  // The n-th call from now on that puts something on the queue fails.
  void fail_call(uint64_t n, std::string message) {
    calls_until_fault_ = n;
    fault_ = std::move(message);
  }
  // Something that is put on the queue now fails when it runs.
  void fail_on_queue(std::string message);

 private:
  struct Pinned {
    uint64_t bytes = 0;
    std::unique_ptr<std::byte[]> memory;
  };
  bool is_pinned(const void* at, uint64_t bytes) const;
  // `copy` runs on the queue; `host` is its side of the host.
  Status push_copy(const void* host, uint64_t bytes, std::function<bool()> copy);
  Status outcome();
  Status not_captured(std::string_view what) const;
  // Of a call that puts something on the queue.
  Status called(std::string_view what);

  Emulator machine_;
  uint64_t memory_bytes_;
  uint32_t devices_ = 1;
  uint32_t device_ = 0;
  bool shows_memory_ = false;
  std::map<const std::byte*, Pinned> pinned_;
  uint64_t pageable_copies_ = 0;
  uint64_t sent_ahead_ = 0;
  uint64_t fetches_waiting_ = 0;
  uint64_t fetched_bytes_ = 0;
  uint64_t marks_ = 0;
  uint64_t passed_ = 0;                      // the latest mark that the queue has come to
  std::vector<void*> activations_, inputs_;  // of steps
  using Launches = std::deque<std::function<void()>>;
  std::map<void*, std::shared_ptr<Launches>> graphs_;
  bool capturing_ = false;
  bool refuses_captures_ = false;
  uint64_t calls_until_fault_ = 0;
  std::string fault_;
  uint64_t captures_ = 0;
  uint64_t replays_ = 0;
  mutable LateQueue queue_, captured_;
  Status failed_;
};

}  // namespace tenon::cuda::test
