// What the executor `cuda` asks of a machine beside launching kernels: memory, copies, waiting. Two
// bodies: CUDA's runtime, and the emulator in tests.
//
// There is one queue. What is put on it runs in order and later; memory of the host that a copy
// reads or writes must stay as it is until the queue was waited for. Copies from and to pinned
// memory are put there and return; others may make the caller wait.
//
// Threads: one thread calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon::cuda {

// Launches that were captured, to be put on the queue together.
struct DeviceGraph {
  void* handle = nullptr;
  uint64_t bytes = 0;  // of device memory that it took
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual std::string device_name() const = 0;
  // Devices that this process sees. The first is used unless another one is chosen before anything
  // else is asked.
  virtual uint32_t devices() const = 0;
  virtual Status use_device(uint32_t index) = 0;
  // Of the one in use: equal in all processes of the machine, and different from other devices'.
  virtual std::string device_id() const = 0;
  // What could be allocated now.
  virtual uint64_t free_bytes() const = 0;
  // Aligned to 256. `what` leads messages. Errors: out_of_memory.
  virtual Result<void*> allocate(uint64_t bytes, std::string_view what) = 0;
  virtual void free(void* at) = 0;
  // Of the host. Aligned to 64. Errors: out_of_memory.
  virtual Result<void*> allocate_pinned(uint64_t bytes, std::string_view what) = 0;
  virtual void free_pinned(void* at) = 0;

  // A handle by which another process on this machine reaches an allocation, and what it reaches
  // there until it lets go of it. Errors: unsupported, or what the device says.
  virtual Result<std::string> share(void* at) = 0;
  virtual Result<void*> reach(const std::string& handle) = 0;
  virtual void let_go(void* reached) = 0;

  // On the queue.
  virtual Status send(void* to_device, const void* from_host, uint64_t bytes) = 0;
  virtual Status fetch(void* to_host, const void* from_device, uint64_t bytes) = 0;
  // Both on the device, not overlapping.
  virtual Status copy(void* to, const void* from, uint64_t bytes) = 0;
  // For all that is on the queue. The error is of what ran.
  virtual Status wait() = 0;
  // A ticket for what is on the queue now, to wait for that and no more. Tickets rise from 1; 0 is
  // that of nothing.
  virtual Result<uint64_t> mark() = 0;
  virtual Status wait_for(uint64_t ticket) = 0;
  virtual void* stream() const = 0;

  // What is launched on `stream` between these two is kept and does not run. Only launches may come
  // between them. Behind `end_capture`, also where it fails, launches run again.
  virtual Status begin_capture() = 0;
  virtual Result<DeviceGraph> end_capture() = 0;
  // On the queue: the launches with the arguments that they had when they were captured.
  virtual Status replay(void* graph) = 0;
  // The queue has passed its last replay.
  virtual void drop(void* graph) = 0;

  // What a launch returned, as a Status that names the operation.
  virtual Status launched(int error, std::string_view operation) const = 0;
};

}  // namespace tenon::cuda
