#include "core/compare/arms/turns.h"

#include <ctime>

namespace tenon::compare {
namespace {

// Processor time of all threads of this process.
int64_t cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int64_t TurnClock::now_ns() const noexcept {
  const int64_t at = stopped_at_.load(std::memory_order_relaxed);
  return at >= 0 ? at : clock_.now_ns() - stopped_ns_.load(std::memory_order_relaxed);
}

void TurnClock::stop() noexcept {
  stopped_at_.store(now_ns(), std::memory_order_relaxed);
}

void TurnClock::go_on() noexcept {
  const int64_t at = stopped_at_.load(std::memory_order_relaxed);
  if (at < 0) return;
  stopped_ns_.store(clock_.now_ns() - at, std::memory_order_relaxed);
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
