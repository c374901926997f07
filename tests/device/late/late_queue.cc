#include "tests/device/late/late_queue.h"

#include <utility>

#include "core/base/result.h"

namespace tenon::test {

LateQueue::LateQueue(DeviceMemory& memory, Pace pace, uint64_t seed)
    : memory_(memory), pace_(pace), random_(seed * 2 + 1) {
  if (pace != Pace::at_once) thread_ = std::thread([this] { serve(); });
}

LateQueue::~LateQueue() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t LateQueue::push(std::string what, Work work) {
  items_.push_back({std::move(what), std::move(work)});
  ++pushed_;
  if (pace_ == Pace::at_once) run_items(pushed_);
  if (pace_ == Pace::uneven) catch_up();
  return pushed_;
}

void LateQueue::catch_up() {
  random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
  const uint64_t draw = random_ >> 33;
  if (draw % 8 != 0) return;
  ++early_turns_;
  run_until(done_ + 1 + (draw / 8) % (pushed_ - done_));
}

Status LateQueue::wait(uint64_t ticket) {
  run_until(ticket);
  return std::exchange(error_, Status());
}

void LateQueue::run_until(uint64_t ticket) {
  if (ticket <= done_) return;
  if (!thread_.joinable()) return run_items(ticket);
  std::unique_lock lock(mutex_);
  turn_ = ticket;
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ == 0; });
}

void LateQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return turn_ != 0 || stop_; });
    if (stop_) return;
    run_items(turn_);
    turn_ = 0;
    changed_.notify_all();
  }
}

void LateQueue::run_items(uint64_t ticket) {
  memory_.enter_device();
  while (done_ < ticket && !items_.empty()) {
    const Item item = std::move(items_.front());
    items_.pop_front();
    ++done_;
    if (!error_.ok()) continue;
    Status status = item.work();
    if (!status.ok()) error_ = with_context(item.what, status);
  }
  memory_.leave_device();
}

}  // namespace tenon::test
