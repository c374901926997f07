// Decides how many workers of a pool enter the next run, and how those who wait should wait.
//
// Workers of one step meet at barriers, every few microseconds in a small model. While other
// processes want the same processors, one worker or another is refused its processor most of the
// time, and all the others wait for it: with k workers that each run for a share p of the time,
// k·p^k processors' worth of work gets done, which is less than a lone worker's p as soon as p is
// small. So the governor looks at the time in which workers wanted a processor and had none. It
// lets workers that wait sleep instead of spinning as soon as there is any; and where barriers
// follow each other so fast that no worker gets far without the others, it sends workers out of
// the next runs, and brings them back once those that remain run undisturbed. No bit depends on
// it: a row's logits are the same for any number of workers.
#pragma once

#include <cstdint>

namespace tenon {

// What one run of a pool cost.
struct RunCost {
  uint32_t workers = 1;     // that took part
  uint64_t barriers = 0;    // that each of them entered
  uint64_t wall_ns = 0;     // from the first worker's entry to the last one's end
  uint64_t cpu_ns = 0;      // processor time of all of them
  uint64_t refused_ns = 0;  // time in which they wanted a processor and had none, of all of them
};

class WorkerGovernor {
 public:
  explicit WorkerGovernor(uint32_t most) : most_(most), workers_(most) {}

  // How many workers enter the next run: 1 … `most`.
  uint32_t workers() const { return workers_; }
  // Whether others want the processors too, so that who waits should sleep.
  bool crowded() const { return crowded_; }
  // Before there is a run to judge by: `others` threads want `cores` processors. Assumes that they
  // all get the same, and that workers meet at barriers often, and lets fewer workers enter where
  // they would get clearly more done; a first run that shows otherwise brings the workers back.
  void expect(uint32_t others, uint32_t cores);
  // Takes note of a run that `workers()` workers entered.
  void add(const RunCost& cost);

 private:
  void decide();
  void send_some_out(bool most_of_them);
  void bring_some_back();

  const uint32_t most_;
  uint32_t workers_;
  bool crowded_ = false;
  RunCost window_;             // the sum of the runs since the last decision
  uint32_t late_windows_ = 0;  // one after the other in which barriers waited for the refused
  uint64_t calm_ns_ = 0;       // since workers were last refused a processor
  uint64_t patience_ns_ = kLeastPatienceNs;  // calm time after which workers come back

  static constexpr uint64_t kLeastPatienceNs = 10'000'000;
};

}  // namespace tenon
