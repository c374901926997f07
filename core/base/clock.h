// Time as an argument: the engine and its plugins read whichever clock they are given.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tenon {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since a fixed point, never decreasing. [any thread]
  virtual int64_t now_ns() const noexcept = 0;
};

// The system's monotonic clock.
class WallClock final : public Clock {
 public:
  int64_t now_ns() const noexcept override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Stands still until someone moves it: the clock of simulations and of tests.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(int64_t start_ns = 0) : now_ns_(start_ns) {}
  int64_t now_ns() const noexcept override { return now_ns_.load(std::memory_order_relaxed); }
  void advance(int64_t by_ns) noexcept { now_ns_.fetch_add(by_ns, std::memory_order_relaxed); }
  // Moves to `at_ns`; a time in the past changes nothing.
  void advance_to(int64_t at_ns) noexcept {
    if (at_ns > now_ns()) now_ns_.store(at_ns, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> now_ns_;
};

}  // namespace tenon
