#include "core/isolation/lane.h"

#include <algorithm>
#include <ctime>
#include <new>
#include <thread>

#include "core/base/threads/futex.h"
#include "core/base/threads/pause.h"

namespace tenon {
namespace {

// Longer than a scheduler plans; shorter than what a sleep and a wake cost together where cores are
// idle. With one core whoever waits is in the way.
constexpr int64_t kLookNs = 20'000;
constexpr int64_t kSleepNs = 10'000'000;

int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool several_cores() {
  static const bool kSeveral = std::thread::hardware_concurrency() > 1;
  return kSeveral;
}

// Whether the word became another within the time that looking is cheaper than sleeping.
bool look_for_another(const std::atomic<uint32_t>& word, uint32_t value) {
  if (word.load(std::memory_order_acquire) != value) return true;
  if (!several_cores()) return false;
  const int64_t until = monotonic_ns() + kLookNs;
  do {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != value) return true;
      pause_core();
    }
  } while (monotonic_ns() < until);
  return false;
}

}  // namespace

Lane::Lane(std::byte* mapping, const LaneSizes& sizes, uint32_t index) {
  std::byte* const begin = mapping + index * sizes.lane_bytes();
  header_ = std::launder(reinterpret_cast<LaneHeader*>(begin));
  call_ = {begin + kLaneHeaderBytes, static_cast<size_t>(sizes.call_bytes)};
  reply_ = {begin + kLaneHeaderBytes + sizes.call_bytes, static_cast<size_t>(sizes.reply_bytes)};
}

void Lane::say(LaneState state, const std::atomic<uint32_t>& sleeps) const {
  header_->state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);
  if (sleeps.load(std::memory_order_seq_cst) != 0) wake(header_->state, 1);
}

void Lane::call(uint32_t method, size_t bytes) const {
  header_->method.store(method, std::memory_order_relaxed);
  header_->call_bytes.store(bytes, std::memory_order_relaxed);
  say(LaneState::called, header_->process_sleeps);
}

void Lane::answer() const {
  say(LaneState::answered, header_->process_sleeps);
}

bool Lane::wait_for_reply(const std::function<bool()>& go_on) const {
  const timespec limit{.tv_sec = 0, .tv_nsec = kSleepNs};
  for (;;) {
    const uint32_t now = header_->state.load(std::memory_order_acquire);
    const auto state = static_cast<LaneState>(now);
    if (state != LaneState::called && state != LaneState::answered) return true;
    if (look_for_another(header_->state, now)) continue;
    header_->program_sleeps.store(1, std::memory_order_seq_cst);
    sleep_while(header_->state, now, &limit);
    header_->program_sleeps.store(0, std::memory_order_relaxed);
    if (header_->state.load(std::memory_order_acquire) == now && !go_on()) return false;
  }
}

bool Lane::is_question() const {
  return header_->state.load(std::memory_order_acquire) == static_cast<uint32_t>(LaneState::asked);
}

std::span<const std::byte> Lane::said() const {
  const uint64_t bytes = header_->reply_bytes.load(std::memory_order_relaxed);
  return reply_.first(static_cast<size_t>(std::min<uint64_t>(bytes, reply_.size())));
}

void Lane::wait_for_call() const {
  for (;;) {
    const uint32_t now = header_->state.load(std::memory_order_acquire);
    if (now == static_cast<uint32_t>(LaneState::called)) return;
    header_->process_sleeps.store(1, std::memory_order_seq_cst);
    sleep_while(header_->state, now, nullptr);
    header_->process_sleeps.store(0, std::memory_order_relaxed);
  }
}

void Lane::reply(size_t bytes) const {
  header_->reply_bytes.store(bytes, std::memory_order_relaxed);
  say(LaneState::replied, header_->program_sleeps);
}

void Lane::ask(size_t bytes) const {
  header_->reply_bytes.store(bytes, std::memory_order_relaxed);
  say(LaneState::asked, header_->program_sleeps);
  for (;;) {
    const uint32_t now = header_->state.load(std::memory_order_acquire);
    if (now == static_cast<uint32_t>(LaneState::answered)) return;
    if (look_for_another(header_->state, now)) continue;
    header_->process_sleeps.store(1, std::memory_order_seq_cst);
    sleep_while(header_->state, now, nullptr);
    header_->process_sleeps.store(0, std::memory_order_relaxed);
  }
}

}  // namespace tenon
