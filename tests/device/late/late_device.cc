#include "tests/device/late/late_device.h"

#include <cstring>

namespace tenon::test {

LateDevice::LateDevice(LateDeviceOptions options)
    : memory(options.bytes, options.guarded), queue(memory, options.pace, options.seed) {
  facts_.cuda_devices = 1;
  services_.context = this;
  services_.facts = &facts_;
  services_.allocate = [](void* self, Space space, uint64_t bytes,
                          uint64_t alignment) noexcept -> void* {
    DeviceMemory& of = static_cast<LateDevice*>(self)->memory;
    if (space == kDeviceSpace) return of.device.allocate(bytes, alignment);
    return space == Space() ? of.pinned.allocate(bytes, alignment) : nullptr;
  };
  // Given back when the device goes.
  services_.free = [](void*, Space, void*) noexcept {};
}

std::byte* LateDevice::upload(const void* data, uint64_t bytes) {
  std::byte* to = memory.device.allocate(bytes);
  const Status status = queue.run_now("upload", [=] {
    std::memcpy(to, data, bytes);
    return Status();
  });
  return status.ok() ? to : nullptr;
}

}  // namespace tenon::test
