// Arms that replay their work in turns: a few steps of one, then a few of the other, so that all
// of them meet the same second of the machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/result.h"
#include "core/report/statistics/measured.h"

namespace tenon::compare {

// The clock of an arm: it stands still while others have their turn, and while the thread that
// takes the arm's steps is ready to run and other programs have the processors.
class TurnClock final : public Clock {
 public:
  // How long a thread has waited for a processor, in nanoseconds.
  using Waited = std::function<int64_t()>;

  // Borrows the clock.
  explicit TurnClock(const Clock& clock) : clock_(clock) {}
  int64_t now_ns() const noexcept override;
  void stop() noexcept;
  void go_on() noexcept;
  // What is waited from now on is left out, to a tenth of a millisecond. An empty function ends it.
  // While no other thread asks for the time.
  void leave_out(Waited waited);
  // What has been left out so far.
  int64_t left_out_ns() const noexcept { return left_out_ns_.load(std::memory_order_relaxed); }

 private:
  // Of a clock that goes.
  int64_t time_at(int64_t wall_ns) const noexcept;
  void look() const noexcept;

  const Clock& clock_;
  std::atomic<int64_t> stopped_ns_ = 0;        // in all, so far
  std::atomic<int64_t> stopped_at_ = -1;       // what it shows while it stands still; -1 = it goes
  Waited waited_;                              // empty = nothing is left out
  std::atomic<int64_t> waited_before_ns_ = 0;  // what waited_ said when nothing was left out
  mutable std::atomic<int64_t> looked_at_ns_ = 0;
  mutable std::atomic<int64_t> left_out_ns_ = 0;
  mutable std::atomic<int64_t> shown_ns_ = 0;  // it never goes back
};

// How a replay takes its turns.
struct TurnOrder {
  uint32_t steps = 0;  // of the engine in a turn; 0 = the whole replay is one
  // Gives the turn away and waits for the next one. Error: there will be none.
  std::function<Status()> wait = {};
};

// Cuts a replay into its turns.
class Turns {
 public:
  // Borrows the clock.
  explicit Turns(TurnClock& clock) : clock_(clock) {}

  void begin(TurnOrder order);
  // After a step that others follow: waits where the turn is over.
  Status after_step();
  // After the last step.
  void end();
  // Of the latest replay; none where it was not cut.
  std::vector<PieceTurn> taken() const;

 private:
  void add_turn();

  TurnClock& clock_;
  TurnOrder order_;
  uint32_t steps_ = 0;  // of this turn
  int64_t start_ns_ = 0, cpu_start_ns_ = 0;
  std::vector<PieceTurn> turns_;
};

}  // namespace tenon::compare
