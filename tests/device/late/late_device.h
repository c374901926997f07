// A machine with one device, as plugins and executors meet it: its memory, its queue, and the
// services that a plugin for it is given. It stands for what a driver's library is to them.
#pragma once

#include <tenon/host.h>

#include <cstdint>

#include "tests/device/late/device_memory.h"
#include "tests/device/late/late_queue.h"

namespace tenon::test {

inline constexpr Space kDeviceSpace{SpaceKind::cuda, 0};

struct LateDeviceOptions {
  Pace pace = Pace::late;
  bool guarded = true;
  uint64_t seed = 1;
  uint64_t bytes = uint64_t{256} << 20;  // of each memory space; backed where it is used
};

class LateDevice {
 public:
  explicit LateDevice(LateDeviceOptions options = {});

  DeviceMemory memory;
  LateQueue queue;

  // With `allocate` for {host, 0}, which is pinned, and for {cuda, 0}.
  const HostServices& services() const { return services_; }
  // Memory of the device that holds what stands at `data` on the host. Waits for the copy.
  std::byte* upload(const void* data, uint64_t bytes);

 private:
  HostFacts facts_;
  HostServices services_;
};

}  // namespace tenon::test
