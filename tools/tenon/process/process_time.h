// How long a process of ours may take, counted so that a busy machine, or one that stands still,
// takes nothing from it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace tenon {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// In seconds. Whichever is over first ends the process.
struct TimeLimits {
  double by_the_clock = kNoLimit;
  double computing = kNoLimit;  // processor time of all of its threads
  double waiting = kNoLimit;    // all of its threads sleep
};

enum class TimeLimit : uint8_t { none, by_the_clock, computing, waiting };

class ProcessTime {
 public:
  // Of a child that has not been waited for.
  ProcessTime(pid_t pid, const TimeLimits& limits);

  // To be called several times a second. Of the time since the last look no more than a moment
  // counts: where it was longer, this process stood still, and the child most likely too.
  TimeLimit look();
  double computed() const { return computed_; }
  double waited() const { return waited_; }

 private:
  const pid_t pid_;
  const TimeLimits limits_;
  std::chrono::steady_clock::time_point last_;
  double by_the_clock_ = 0, computed_ = 0, waited_ = 0;
};

}  // namespace tenon
