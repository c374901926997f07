#include "tests/cuda/device/real_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

namespace tenon::cuda::test {

RealDriver::RealDriver(uint64_t memory_bytes, uint64_t) : memory_bytes_(memory_bytes) {
  auto made = make_runtime_driver();
  EXPECT_TRUE(made.ok()) << made.status().message();
  driver_ = *std::move(made);
}

RealDriver::~RealDriver() {
  const Status status = driver_->wait();
  EXPECT_TRUE(status.ok()) << status.message();
}

uint64_t RealDriver::free_bytes() const {
  const uint64_t allowed = memory_bytes_ - std::min(memory_bytes_, allocated_bytes_);
  return std::min(allowed, driver_->free_bytes());
}

Result<void*> RealDriver::allocate(uint64_t bytes, std::string_view what) {
  if (bytes > free_bytes()) return out_of_memory(std::string(what) + " has no room");
  Result<void*> made = driver_->allocate(bytes, what);
  if (!made.ok()) return made;
  sizes_[*made] = bytes;
  allocated_bytes_ += bytes;
  return made;
}

void RealDriver::free(void* at) {
  const auto found = sizes_.find(at);
  if (found != sizes_.end()) {
    allocated_bytes_ -= found->second;
    sizes_.erase(found);
  }
  driver_->free(at);
}

Result<void*> RealDriver::allocate_pinned(uint64_t bytes, std::string_view what) {
  Result<void*> made = driver_->allocate_pinned(bytes, what);
  if (made.ok()) pinned_[*made] = bytes;
  return made;
}

void RealDriver::free_pinned(void* at) {
  pinned_.erase(at);
  driver_->free_pinned(at);
}

Status RealDriver::called(const void* host) {
  if (host != nullptr) {
    const auto behind = pinned_.upper_bound(host);
    const bool pinned =
        behind != pinned_.begin() &&
        std::less<>()(host, static_cast<const std::byte*>(std::prev(behind)->first) +
                                std::prev(behind)->second);
    pageable_copies_ += pinned ? 0 : 1;
  }
  ++put_;
  if (calls_until_fault_ == 0 || --calls_until_fault_ > 0) return {};
  return internal(fault_);
}

Status RealDriver::send(void* to_device, const void* from_host, uint64_t bytes) {
  if (bytes == 0) return {};
  sent_ahead_ += last_fetch_ > waited_ ? 1 : 0;
  TENON_RETURN_IF_ERROR(called(from_host));
  return driver_->send(to_device, from_host, bytes);
}

Status RealDriver::fetch(void* to_host, const void* from_device, uint64_t bytes) {
  if (bytes == 0) return {};
  fetched_bytes_ += bytes;
  TENON_RETURN_IF_ERROR(called(to_host));
  last_fetch_ = put_;
  return driver_->fetch(to_host, from_device, bytes);
}

Status RealDriver::copy(void* to, const void* from, uint64_t bytes) {
  TENON_RETURN_IF_ERROR(called());
  return driver_->copy(to, from, bytes);
}

Result<uint64_t> RealDriver::mark() {
  TENON_RETURN_IF_ERROR(called());
  Result<uint64_t> ticket = driver_->mark();
  if (ticket.ok()) put_before_[*ticket] = put_;
  return ticket;
}

Status RealDriver::wait() {
  waited_ = put_;
  return driver_->wait();
}

Status RealDriver::wait_for(uint64_t ticket) {
  waited_ = std::max(waited_, put_before_[ticket]);
  return driver_->wait_for(ticket);
}

Result<DeviceGraph> RealDriver::end_capture() {
  Result<DeviceGraph> captured = driver_->end_capture();
  if (!captured.ok()) return captured;
  if (refuses_captures_) {
    driver_->drop(captured->handle);
    return internal("capturing a step failed on the device");
  }
  ++captures_;
  ++graphs_;
  return captured;
}

Status RealDriver::replay(void* graph) {
  TENON_RETURN_IF_ERROR(called());
  ++replays_;
  return driver_->replay(graph);
}

void RealDriver::drop(void* graph) {
  --graphs_;
  driver_->drop(graph);
}

}  // namespace tenon::cuda::test
