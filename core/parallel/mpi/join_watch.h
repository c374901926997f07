// Watches the ranks of this host until they have met: a launcher waits for one that is stopped for
// ever, and tells nobody's name of one that was killed. Afterwards RankWatch does, or this goes on
// where ranks share no memory.
//
// Ranks of one host are children of one launcher, which it tells their numbers by the environment.
// Where they are not (a script in between that stays), nothing is watched.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/parallel/process_end.h"
#include "core/parallel/rank_watch.h"

namespace tenon {

class JoinWatch {
 public:
  // `on_fault` as RankWatch's: the lowest of those that are left speaks, the others hear of it a
  // little later. Where not all `ranks` of this host have been seen, so that another one may have
  // been lost before, and a witness knows better, it is called with an empty fault.
  JoinWatch(uint32_t own_rank, uint32_t ranks, RankWatch::OnFault on_fault);
  ~JoinWatch();
  JoinWatch(const JoinWatch&) = delete;
  JoinWatch& operator=(const JoinWatch&) = delete;

  // From now on nothing is said of ranks that have not met. [any thread]
  void met() { met_ = true; }

  // Other ranks of this host that it knows of by now. [any thread]
  uint32_t found() const { return found_.load(); }

 private:
  struct Sibling {
    uint32_t rank = 0;
    int64_t process = 0;
    int descriptor = -1;
    int64_t stopped_since_ns = 0;  // 0: it is not
  };
  void watch(const std::stop_token& stop);
  void look_around();
  void wait() const;
  // What is wrong with it; empty: nothing.
  std::string fault_of(Sibling& sibling, int64_t now_ns) const;
  bool is_left_to_witness() const;

  const uint32_t own_rank_, ranks_;
  const uint64_t killed_before_;  // for want of memory, by the system
  const RankWatch::OnFault on_fault_;
  std::vector<Sibling> siblings_;  // those that have ended first, in the order of their ends
  ProcessEnds ends_;               // of them, by their processes
  size_t ended_ = 0;
  std::atomic<uint32_t> found_ = 0;  // of them
  std::atomic<bool> met_ = false;
  std::jthread thread_;
};

}  // namespace tenon
