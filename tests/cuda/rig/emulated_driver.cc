#include "tests/cuda/rig/emulated_driver.h"

#include <cstring>
#include <utility>

namespace tenon::cuda::test {

EmulatedDriver::EmulatedDriver(uint64_t memory_bytes, uint64_t seed)
    : machine_(seed), memory_bytes_(memory_bytes) {
  machine_.limit_memory(memory_bytes);
}

Result<void*> EmulatedDriver::allocate(uint64_t bytes, std::string_view what) {
  TENON_RETURN_IF_ERROR(not_captured("allocating"));
  void* const at = machine_.allocate(bytes, std::string(what));
  if (what.starts_with("activations")) activations_.push_back(at);
  if (what == "a step's arrays" || what == "a step's plan" || what == "angles") {
    inputs_.push_back(at);
  }
  if (at != nullptr) return at;
  return out_of_memory(std::string(what) + " needs " + std::to_string(bytes) +
                       " bytes of device memory, of which " + std::to_string(free_bytes()) +
                       " are free");
}

void EmulatedDriver::free(void* at) {
  std::erase(activations_, at);
  std::erase(inputs_, at);
  machine_.free(at);
}

// The machine and the address, as they are in this process.
Result<std::string> EmulatedDriver::share(void* at) {
  if (!shows_memory_) return unsupported("this device shows its memory to nobody");
  const std::pair<Emulator*, void*> handle(&machine_, at);
  return std::string(reinterpret_cast<const char*>(&handle), sizeof(handle));
}

Result<void*> EmulatedDriver::reach(const std::string& text) {
  std::pair<Emulator*, void*> handle;
  std::memcpy(static_cast<void*>(&handle), text.data(), sizeof(handle));
  if (machine_.reach(*handle.first, handle.second)) return handle.second;
  return internal("the other device has no such memory");
}

Status EmulatedDriver::not_captured(std::string_view what) const {
  if (!capturing_) return {};
  return internal(std::string(what) + " while launches are captured; expected launches alone");
}

Status EmulatedDriver::called(std::string_view what) {
  TENON_RETURN_IF_ERROR(not_captured(what));
  if (calls_until_fault_ == 0 || --calls_until_fault_ > 0) return {};
  return internal(fault_);
}

void EmulatedDriver::fail_on_queue(std::string message) {
  queue_.push([this, text = std::move(message)] { failed_ = internal(text); });
}

Status EmulatedDriver::begin_capture() {
  TENON_RETURN_IF_ERROR(not_captured("beginning to capture"));
  capturing_ = true;
  return {};
}

Result<DeviceGraph> EmulatedDriver::end_capture() {
  capturing_ = false;
  if (refuses_captures_) {
    (void)captured_.take();
    return internal("capturing a step failed on the device");
  }
  ++captures_;
  auto launches = std::make_shared<Launches>(captured_.take());
  const DeviceGraph graph{launches.get(), launches->size() * 1024};
  graphs_[graph.handle] = std::move(launches);
  return graph;
}

Status EmulatedDriver::replay(void* graph) {
  TENON_RETURN_IF_ERROR(called("replaying"));
  ++replays_;
  queue_.push([this, graph = std::weak_ptr<Launches>(graphs_.at(graph))] {
    const std::shared_ptr<Launches> launches = graph.lock();
    if (launches == nullptr) {
      failed_ = internal("a graph was dropped before it ran");
      return;
    }
    for (void* at : activations_) machine_.forget(at);
    for (const auto& launch : *launches) launch();
    for (void* at : inputs_) machine_.forget(at);
  });
  return {};
}

Result<void*> EmulatedDriver::allocate_pinned(uint64_t bytes, std::string_view) {
  Pinned made{bytes, std::make_unique<std::byte[]>(bytes)};
  std::byte* const at = made.memory.get();
  std::memset(at, 0xfb, bytes);
  pinned_[at] = std::move(made);
  return static_cast<void*>(at);
}

bool EmulatedDriver::is_pinned(const void* at, uint64_t bytes) const {
  const auto* const from = static_cast<const std::byte*>(at);
  auto found = pinned_.upper_bound(from);
  if (found == pinned_.begin()) return false;
  --found;
  return static_cast<uint64_t>(from - found->first) + bytes <= found->second.bytes;
}

Status EmulatedDriver::push_copy(const void* host, uint64_t bytes, std::function<bool()> copy) {
  TENON_RETURN_IF_ERROR(called("a copy"));
  const bool pinned = is_pinned(host, bytes);
  pageable_copies_ += pinned ? 0 : 1;
  queue_.push([this, host, bytes, pinned, copy = std::move(copy)] {
    if (pinned && !is_pinned(host, bytes)) {
      failed_ = internal("a copy from or to pinned memory that was given back");
    } else if (!copy()) {
      failed_ = internal("a copy is outside of what was allocated");
    }
  });
  return {};
}

Status EmulatedDriver::send(void* to_device, const void* from_host, uint64_t bytes) {
  if (bytes == 0) return {};
  sent_ahead_ += fetches_waiting_ > 0 ? 1 : 0;
  return push_copy(from_host, bytes,
                   [=, this] { return machine_.copy_in(to_device, from_host, bytes); });
}

Status EmulatedDriver::fetch(void* to_host, const void* from_device, uint64_t bytes) {
  if (bytes == 0) return {};
  ++fetches_waiting_;
  fetched_bytes_ += bytes;
  return push_copy(to_host, bytes, [=, this] {
    --fetches_waiting_;
    return machine_.copy_out(to_host, from_device, bytes);
  });
}

Status EmulatedDriver::copy(void* to, const void* from, uint64_t bytes) {
  TENON_RETURN_IF_ERROR(called("a copy"));
  queue_.push([=, this] {
    if (!machine_.copy_inside(to, from, bytes)) {
      failed_ = internal("a copy is outside of what was allocated");
    }
  });
  return {};
}

Status EmulatedDriver::outcome() {
  if (!machine_.findings().empty()) return internal(machine_.findings()[0].message());
  return std::exchange(failed_, {});
}

Status EmulatedDriver::wait() {
  TENON_RETURN_IF_ERROR(not_captured("waiting"));
  queue_.run_all();
  return outcome();
}

Result<uint64_t> EmulatedDriver::mark() {
  TENON_RETURN_IF_ERROR(called("a mark"));
  const uint64_t ticket = ++marks_;
  queue_.push([=, this] { passed_ = ticket; });
  return ticket;
}

Status EmulatedDriver::wait_for(uint64_t ticket) {
  while (passed_ < ticket && queue_.run_one()) {
  }
  return outcome();
}

Status EmulatedDriver::launched(int error, std::string_view operation) const {
  if (error == 0) return {};
  return internal(std::string(operation) + " was not launched: error " + std::to_string(error));
}

}  // namespace tenon::cuda::test
