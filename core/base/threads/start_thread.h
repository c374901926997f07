// Threads that start, or say what keeps them from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {

// A thread that does `work`. Throws std::system_error where the system starts no further one, as
// in a container with few processes, with a text that a user can act on. Whoever has started
// others already, and made them wait for this one, lets them end.
template <typename Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(),
                            "no further thread can be started – raise the limit of processes "
                            "(ulimit -u, or pids.max of a container)");
  }
}

// run(i) for each i below `count`, each on a thread of its own. None begins before all have
// started: starting a thread takes longer than little work does, so they would run one after the
// other. Throws as start_thread does, and then none has run.
template <typename Run>
void run_together(uint32_t count, const Run& run) {
  enum : int { kWaits, kGoes, kAbandoned };
  std::atomic<int> state = kWaits;
  const auto let_them = [&state](int next) {
    state = next;
    state.notify_all();
  };
  std::vector<std::thread> threads;
  threads.reserve(count);
  const auto join = [&threads] {
    for (std::thread& thread : threads) thread.join();
  };
  try {
    for (uint32_t i = 0; i < count; ++i) {
      threads.push_back(start_thread([&run, &state, i] {
        state.wait(kWaits);
        if (state == kGoes) run(i);
      }));
    }
  } catch (...) {
    let_them(kAbandoned);
    join();
    throw;
  }
  let_them(kGoes);
  join();
}

}  // namespace tenon
