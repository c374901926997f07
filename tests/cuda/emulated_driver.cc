#include "tests/cuda/emulated_driver.h"

namespace tenon::cuda::test {

EmulatedDriver::EmulatedDriver(uint64_t memory_bytes, uint64_t seed)
    : machine_(seed), memory_bytes_(memory_bytes) {
  machine_.limit_memory(memory_bytes);
}

Result<void*> EmulatedDriver::allocate(uint64_t bytes, std::string_view what) {
  void* const at = machine_.allocate(bytes, std::string(what));
  if (at != nullptr) return at;
  return out_of_memory(std::string(what) + " needs " + std::to_string(bytes) +
                       " bytes of device memory, of which " + std::to_string(free_bytes()) +
                       " are free");
}

Status EmulatedDriver::out_of_range(std::string_view what) const {
  return internal(std::string(what) + " is outside of what was allocated");
}

Status EmulatedDriver::send(void* to_device, const void* from_host, uint64_t bytes) {
  queue_.push([=, this] {
    if (bytes > 0 && !machine_.copy_in(to_device, from_host, bytes))
      failed_ = out_of_range("a copy");
  });
  return {};
}

Status EmulatedDriver::fetch(void* to_host, const void* from_device, uint64_t bytes) {
  queue_.push([=, this] {
    if (!machine_.copy_out(to_host, from_device, bytes)) failed_ = out_of_range("a copy");
  });
  return {};
}

Status EmulatedDriver::copy(void* to, const void* from, uint64_t bytes) {
  queue_.push([=, this] {
    if (!machine_.copy_inside(to, from, bytes)) failed_ = out_of_range("a copy");
  });
  return {};
}

Status EmulatedDriver::wait() {
  queue_.run_all();
  if (!machine_.findings().empty()) return internal(machine_.findings()[0].message());
  return std::move(failed_);
}

Status EmulatedDriver::launched(int error, std::string_view operation) const {
  if (error == 0) return {};
  return internal(std::string(operation) + " was not launched: error " + std::to_string(error));
}

}  // namespace tenon::cuda::test
