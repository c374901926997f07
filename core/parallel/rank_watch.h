// Watches the ranks of one machine: a thread of each process that raises its own beat and looks at
// those of the others. A process that ended is seen at once, one that does not run (SIGSTOP, a
// machine that swaps) after kSilenceNs; it is ended then, like the run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/parallel/collective.h"
#include "core/parallel/shared_memory.h"

namespace tenon {

class RankWatch {
 public:
  static constexpr int64_t kSilenceNs = 5'000'000'000;
  // Rank 0 has left: the others free what they hold, which is much, and leave as well.
  static constexpr int64_t kLeavingNs = 8'000'000'000;
  // `speaks`: this process is the one to tell people; `fault` names rank, host and cause, or is
  // empty where rank 0 has ended in order and this process has waited for it.
  using OnFault = std::function<void(const std::string& fault, bool speaks)>;

  // `on_fault` is called once at most, `on_beat` (may be empty) ten times a second after a look
  // that found nothing wrong; both on the watch's thread.
  RankWatch(std::shared_ptr<SharedMemory> memory, uint32_t rank, std::vector<RankPlace> places,
            OnFault on_fault, std::function<void()> on_beat = {});
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

 private:
  struct Seen {
    int descriptor = -1;  // of the process; -1: the system has none
    uint64_t beats = 0;
    int64_t changed_ns = 0;
  };
  void watch(const std::stop_token& stop);
  // What is wrong with a rank now; empty: nothing.
  std::string fault_of(uint32_t rank, Seen& seen, int64_t now_ns) const;
  bool is_left_behind(const Seen& leader, int64_t now_ns);
  // Until the next beat, or until one of the processes ends.
  void wait(const std::vector<Seen>& seen) const;
  bool report(const std::string& fault) const;

  std::shared_ptr<SharedMemory> memory_;
  uint32_t rank_;
  std::vector<RankPlace> places_;
  OnFault on_fault_;
  std::function<void()> on_beat_;
  int64_t left_since_ns_ = 0;     // rank 0; 0: it is here
  const uint64_t killed_before_;  // for want of memory, by the system
  std::jthread thread_;
};

}  // namespace tenon
