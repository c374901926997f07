// A fixed crew of threads that enter a function together, many times a second.
//
// The thread that calls `run` is worker 0; the others wait, awake for a moment and then asleep.
// Inside, workers meet at `barrier`, which costs well under a microsecond while every worker has
// a core of its own, and gives its core away when it does not.
//
// All workers compute under the same floating-point state: round to nearest, subnormal results
// become zero (which keeps their cost away). So a value has the same bits whichever worker computes
// it. The caller's own state is restored behind `run`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct WorkerPoolOptions {
  uint32_t threads = 0;  // 0 = one for each core this process may use
  // Workers other than 0 stay on one core each, where there are enough. Worker 0 is the caller's
  // thread and moves as it did before.
  bool pin = true;
};

class WorkerPool {
 public:
  static constexpr uint32_t kMaxThreads = 512;

  // Errors: invalid_argument (more than kMaxThreads), failed (the system grants no more threads).
  static Result<std::unique_ptr<WorkerPool>> start(const WorkerPoolOptions& options);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  uint32_t size() const { return size_; }

  // Calls function(worker) on every worker, 0 … size()-1, and returns when all have returned. What
  // one worker wrote before is seen by all behind. The function must not throw. One caller at a
  // time, never from within.
  template <typename Function>
  void run(Function&& function) noexcept {
    run_erased([](void* f, uint32_t worker) { (*static_cast<Function*>(f))(worker); }, &function);
  }

  // Within `run`: returns when all workers have called it as often as this one.
  void barrier(uint32_t worker) noexcept;

 private:
  using Erased = void (*)(void* function, uint32_t worker);
  // A counter with a cache line of its own: only its writer and its one waiter touch it.
  struct alignas(64) Flag {
    std::atomic<uint32_t> value{0};
  };
  struct alignas(64) Local {
    uint32_t barriers = 0;  // barriers that this worker has entered
  };

  WorkerPool(uint32_t size, bool crowded);
  Status start_threads(const std::vector<int>& cores);
  void run_erased(Erased call, void* function) noexcept;
  void serve(uint32_t worker) noexcept;
  uint32_t wait_for_start(uint32_t seen) noexcept;
  void wait_for(const std::atomic<uint32_t>& flag, uint32_t value) const noexcept;

  const uint32_t size_;
  const uint32_t rounds_;            // ⌈log₂ size⌉
  const uint32_t spin_limit_;        // pauses before a waiting worker gives its core away
  std::unique_ptr<Flag[]> flags_;    // [size][rounds]
  std::unique_ptr<Local[]> locals_;  // [size]
  Flag start_;                       // calls of `run` so far
  Flag sleepers_;
  Erased call_ = nullptr;  // null tells workers to leave
  void* function_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace tenon
