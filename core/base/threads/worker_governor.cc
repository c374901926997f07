// How many workers enter a run on a machine that others use too.
#include "core/base/threads/worker_governor.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

// Decisions are made over this much time: two of Linux's time slices of 3 ms.
constexpr uint64_t kWindowNs = 6'000'000;
// Shares of the processor time that workers wanted and were refused: from the upper one on the
// machine counts as crowded, until it falls below the lower one.
constexpr double kCrowdedFrom = 0.05, kCrowdedTo = 0.02;
// From this share on, every other worker is better sent out than kept.
constexpr double kMostAreRefused = 0.35;
// Shares of a step in which some worker was refused while, for want of work, the others waited:
// two such windows in a row are no chance, and one of the second kind is none either.
constexpr double kLate = 0.5, kVeryLate = 0.75;
// With this much work between two barriers a worker that comes late finds the others ahead by what
// was left of its own share, and no more is lost: measured, see
// docs/experiments/030-busy-machines.md.
constexpr uint64_t kLongWorkNs = 50'000;
constexpr uint32_t kLateWindows = 2;
constexpr uint64_t kMostPatienceNs = 640'000'000;
constexpr uint64_t kCalmAgainNs = 1'000'000'000;
// The run queue is seen at one moment: fewer workers enter where they would get a quarter more
// done.
constexpr double kClearlyMore = 1.25;

double share(uint64_t part_ns, uint64_t whole_ns) {
  return whole_ns == 0 ? 0.0 : static_cast<double>(part_ns) / static_cast<double>(whole_ns);
}

// Processors' worth of work that `workers` get done next to `others` threads on `cores`, if each
// thread gets the same and nobody works while one of the workers does not run.
double work_done(uint32_t workers, uint32_t others, uint32_t cores) {
  const double granted = std::min(1.0, static_cast<double>(cores) / (others + workers));
  return workers * std::pow(granted, workers);
}

}  // namespace

void WorkerGovernor::expect(uint32_t others, uint32_t cores) {
  workers_ = most_;
  double best = kClearlyMore * work_done(most_, others, cores);
  for (uint32_t workers = 1; workers < most_; ++workers) {
    const double work = work_done(workers, others, cores);
    if (work > best) workers_ = workers;
    best = std::max(best, work);
  }
  crowded_ = workers_ < most_;
}

void WorkerGovernor::add(const RunCost& cost) {
  window_.barriers += cost.barriers;
  window_.wall_ns += cost.wall_ns;
  window_.cpu_ns += cost.cpu_ns;
  window_.refused_ns += cost.refused_ns;
  if (window_.wall_ns < kWindowNs) return;
  decide();
  window_ = {};
}

void WorkerGovernor::decide() {
  // Of workers that wait for each other one is refused at a time, mostly; so shares add up.
  const double late = share(window_.refused_ns, window_.wall_ns);
  const double refused = share(window_.refused_ns, window_.refused_ns + window_.cpu_ns);
  const bool short_work = window_.cpu_ns < window_.barriers * most_ * kLongWorkNs;
  crowded_ = refused > (crowded_ ? kCrowdedTo : kCrowdedFrom);
  calm_ns_ = crowded_ ? 0 : calm_ns_ + window_.wall_ns;
  late_windows_ = workers_ > 1 && short_work && late > kLate ? late_windows_ + 1 : 0;
  if (late_windows_ >= kLateWindows || (late_windows_ > 0 && late > kVeryLate)) {
    send_some_out(refused > kMostAreRefused);
  } else if (workers_ < most_ && (calm_ns_ >= patience_ns_ || !short_work)) {
    bring_some_back();
  } else if (workers_ == most_ && calm_ns_ >= kCalmAgainNs) {
    patience_ns_ = kLeastPatienceNs;
  }
}

// Where few are refused, few leave: not the same ones perhaps, but whoever shared a processor with
// a refused worker finds a free one then.
void WorkerGovernor::send_some_out(bool most_of_them) {
  workers_ = most_of_them ? workers_ / 2 : workers_ - std::max(1u, workers_ / 8);
  late_windows_ = 0;
  calm_ns_ = 0;
  patience_ns_ = std::min(2 * patience_ns_, kMostPatienceNs);
}

void WorkerGovernor::bring_some_back() {
  workers_ = std::min(2 * workers_, most_);
  calm_ns_ = 0;
}

}  // namespace tenon
