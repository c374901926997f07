// Waiting for a word that another thread or process is going to write: yielding, then sleeping in
// the kernel (futex(2)). The word may be in memory that processes share.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "core/base/clock.h"

namespace tenon {

// Returns once the word is another one than `seen`, somebody wakes, or `most` is over (null: no
// limit), and now and then for no reason.
inline void sleep_while(std::atomic<uint32_t>& word, uint32_t seen, const timespec* most) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, most, nullptr, 0);
}
inline void wake(std::atomic<uint32_t>& word, int sleepers = INT_MAX) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, sleepers, nullptr, nullptr,
            0);
}

// Lets others run until `done` says so, and returns whether it did, within `most_ns`. A turn that
// takes longer than `long_ns` is the last one: somebody else ran, who may be the one that is waited
// for.
template <typename Done>
bool yield_until(const Done& done, int64_t most_ns, int64_t long_ns) {
  const WallClock clock;
  const int64_t start = clock.now_ns();
  for (int64_t now = start; now - start < most_ns;) {
    if (done()) return true;
    ::sched_yield();
    const int64_t after = clock.now_ns();
    if (after - now > long_ns) break;
    now = after;
  }
  return false;
}

}  // namespace tenon
