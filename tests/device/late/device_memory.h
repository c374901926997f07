// Memory of a machine with a device, in three spaces:
//   device    the host may not touch it
//   pageable  the device may not touch it
//   pinned    both may
// What a side may not touch is mapped without any access while that side works, so whoever breaks
// the rule dies on the spot (SIGSEGV). There is one side at a time: while the device works, the
// host waits for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::test {

// A range of addresses from which pieces are taken one after the other.
class MemorySpace {
 public:
  MemorySpace(uint64_t bytes, bool accessible);
  ~MemorySpace();
  MemorySpace(const MemorySpace&) = delete;
  MemorySpace& operator=(const MemorySpace&) = delete;

  // Null when nothing is left. `alignment` is a power of two, at most 4096. The piece is filled
  // with ones, which are NaN to whoever reads it before it was written.
  std::byte* allocate(uint64_t bytes, uint64_t alignment = 64);
  bool contains(const void* data) const {
    const auto* at = static_cast<const std::byte*>(data);
    return at >= base_ && at < base_ + bytes_;
  }
  const std::byte* base() const { return base_; }
  void set_accessible(bool accessible);
  bool accessible() const { return accessible_; }
  uint64_t used() const { return used_; }

 private:
  std::byte* base_ = nullptr;
  uint64_t bytes_;
  uint64_t used_ = 0;
  bool accessible_;
};

class DeviceMemory {
 public:
  // Not guarded: all spaces stay open to both sides.
  DeviceMemory(uint64_t bytes_a_space, bool guarded);

  MemorySpace device;
  MemorySpace pageable;
  MemorySpace pinned;

  // The device's turn, and the host's again.
  void enter_device();
  void leave_device();

 private:
  bool guarded_;
};

}  // namespace tenon::test
