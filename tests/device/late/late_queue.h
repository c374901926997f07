// A device's queue of work that runs late: on a thread of its own, in order, and only while the
// host waits for it. What a piece of work points to is read when it runs, so a caller that changes
// or frees it too early, or enqueues in a wrong order, is found out.
#pragma once

#include <tenon/status.h>
#include <tenon/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tests/device/late/device_memory.h"

namespace tenon::test {

// How far after the host the device runs.
//   late     nothing runs before somebody waits for it
//   uneven   after some calls the device has caught up a little, by chance
//   at_once  everything has run when `push` returns, on the thread that called
enum class Pace : uint8_t { late, uneven, at_once };

class LateQueue {
 public:
  using Work = std::function<Status()>;

  LateQueue(DeviceMemory& memory, Pace pace, uint64_t seed);
  ~LateQueue();
  LateQueue(const LateQueue&) = delete;
  LateQueue& operator=(const LateQueue&) = delete;

  DeviceQueue handle() { return this; }
  static LateQueue& of(DeviceQueue queue) { return *static_cast<LateQueue*>(queue); }

  // The ticket of the work, to wait for. Tickets rise by one. `what` leads the work's error.
  uint64_t push(std::string what, Work work);
  // Runs everything up to that ticket. The first error of it; what stood between the work that
  // failed and the ticket is dropped.
  Status wait(uint64_t ticket);
  Status wait_for_all() { return wait(pushed_); }
  // Runs `work` after all that was pushed and waits for it, as a copy on the default stream does.
  Status run_now(std::string what, Work work) {
    return wait(push(std::move(what), std::move(work)));
  }

  uint64_t pushed() const { return pushed_; }
  uint64_t done() const { return done_; }
  // How often the device had caught up with something before anybody waited for it.
  uint64_t early_turns() const { return early_turns_; }

 private:
  struct Item {
    std::string what;
    Work work;
  };
  void catch_up();
  void run_until(uint64_t ticket);
  void run_items(uint64_t ticket);
  void serve();  // the queue's thread

  DeviceMemory& memory_;
  Pace pace_;
  uint64_t random_;
  uint64_t pushed_ = 0;
  uint64_t early_turns_ = 0;

  // Of whoever has the turn: the queue's thread while `turn_` is set, else the host.
  std::deque<Item> items_;
  uint64_t done_ = 0;
  Status error_;

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t turn_ = 0;  // the ticket to run up to; 0 = nothing to do
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon::test
