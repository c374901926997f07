#include "core/compare/arms/turns.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace tenon::compare {
namespace {

// Looking costs a microsecond.
constexpr int64_t kLookEveryNs = 100'000;

// Processor time of all threads of this process.
int64_t cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int64_t TurnClock::now_ns() const noexcept {
  const int64_t at = stopped_at_.load(std::memory_order_relaxed);
  if (at >= 0) return at;
  int64_t wall_ns = clock_.now_ns();
  if (waited_ && wall_ns - looked_at_ns_.load(std::memory_order_relaxed) >= kLookEveryNs) {
    looked_at_ns_.store(wall_ns, std::memory_order_relaxed);
    look();
    wall_ns = clock_.now_ns();
  }
  return time_at(wall_ns);
}

// A wait is known some time after it was over, and what was shown meanwhile stays.
int64_t TurnClock::time_at(int64_t wall_ns) const noexcept {
  const int64_t time_ns = wall_ns - stopped_ns_.load(std::memory_order_relaxed) - left_out_ns();
  int64_t shown_ns = shown_ns_.load(std::memory_order_relaxed);
  while (shown_ns < time_ns &&
         !shown_ns_.compare_exchange_weak(shown_ns, time_ns, std::memory_order_relaxed)) {
  }
  return std::max(shown_ns, time_ns);
}

void TurnClock::look() const noexcept {
  left_out_ns_.store(waited_() - waited_before_ns_.load(std::memory_order_relaxed),
                     std::memory_order_relaxed);
}

void TurnClock::leave_out(Waited waited) {
  waited_ = std::move(waited);
  if (waited_) waited_before_ns_.store(waited_() - left_out_ns(), std::memory_order_relaxed);
}

void TurnClock::stop() noexcept {
  if (waited_) look();
  stopped_at_.store(now_ns(), std::memory_order_relaxed);
}

void TurnClock::go_on() noexcept {
  const int64_t at = stopped_at_.load(std::memory_order_relaxed);
  if (at < 0) return;
  // It may have waited while it stood still, and for its turn.
  if (waited_) waited_before_ns_.store(waited_() - left_out_ns(), std::memory_order_relaxed);
  stopped_ns_.store(clock_.now_ns() - left_out_ns() - at, std::memory_order_relaxed);
  stopped_at_.store(-1, std::memory_order_relaxed);
}

void Turns::begin(TurnOrder order) {
  order_ = std::move(order);
  turns_.clear();
  steps_ = 0;
  start_ns_ = clock_.now_ns();
  cpu_start_ns_ = cpu_ns();
}

Status Turns::after_step() {
  if (order_.steps == 0 || ++steps_ < order_.steps) return {};
  steps_ = 0;
  clock_.stop();
  add_turn();
  Status status = order_.wait();
  cpu_start_ns_ = cpu_ns();
  clock_.go_on();
  return status;
}

void Turns::end() {
  add_turn();
}

std::vector<PieceTurn> Turns::taken() const {
  return order_.steps == 0 ? std::vector<PieceTurn>() : turns_;
}

void Turns::add_turn() {
  const int64_t end_ns = clock_.now_ns();
  turns_.push_back({static_cast<double>(end_ns - start_ns_) * 1e-9,
                    static_cast<double>(cpu_ns() - cpu_start_ns_) * 1e-9});
  start_ns_ = end_ns;
}

}  // namespace tenon::compare
