// A fixed crew of threads that enter a function together, many times a second.
//
// The thread that calls `run` is worker 0; the others wait, awake for a moment and then asleep.
// Inside, workers meet at `barrier`, which costs well under a microsecond while every worker has
// a core of its own. Next to other busy processes a worker that waits sleeps instead of spinning
// through a time slice that the one it waits for could use, and a governor may let fewer workers
// enter (worker_governor.h).
//
// All workers compute under the same floating-point state: round to nearest, subnormal results
// become zero (which keeps their cost away). So a value has the same bits whichever worker computes
// it. The caller's own state is restored after `run`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/machine/run_queue.h"
#include "core/base/result.h"
#include "core/base/threads/worker_governor.h"

namespace tenon {

struct WorkerPoolOptions {
  uint32_t threads = 0;  // 0 = one for each core this process may use
  // Workers other than 0 stay on one core each, where there are enough. Worker 0 is the caller's
  // thread and moves as it did before, but for the start of a run: it then leaves a core that one
  // of the workers has to stay on.
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
  // Cores that this process could use when the pool started.
  uint32_t cores() const { return cores_; }

  // Calls function(worker) on every worker, 0 … size()-1, and returns when all have returned. What
  // one worker wrote before is seen by all after. The function must not throw. One caller at a
  // time, never from within.
  template <typename Function>
  void run(Function&& function) noexcept {
    run_erased([](void* f, uint32_t worker) { (*static_cast<Function*>(f))(worker); }, &function,
               size_, nullptr);
  }
  // The same on workers 0 … governor.workers()-1, a number that stays until the call returns; the
  // governor learns what it cost.
  template <typename Function>
  void run(WorkerGovernor& governor, Function&& function) noexcept {
    run_erased([](void* f, uint32_t worker) { (*static_cast<Function*>(f))(worker); }, &function,
               governor.workers(), &governor);
  }

  // How long worker 0 has slept at barriers while another worker was ready to run and other
  // programs had its processor, in nanoseconds. Counted from the first call on, which worker 0
  // makes, between runs; then any thread asks.
  int64_t held_up_ns();

  // Within `run`: returns when all workers that entered have called it as often as this one.
  void barrier(uint32_t worker) noexcept;

 private:
  using Erased = void (*)(void* function, uint32_t worker);
  // A counter with a cache line of its own: only its writer and its one waiter touch it. Whether
  // the waiter sleeps has another one, which stays in the writer's cache as long as nobody does.
  struct Flag {
    alignas(64) std::atomic<uint32_t> value{0};
    alignas(64) std::atomic<uint32_t> sleeps{0};  // 1 while its waiter sleeps, or is about to
  };
  // What belongs to one worker; the others read it while it stands outside.
  struct alignas(64) Local {
    uint32_t barriers = 0;  // that this worker has entered, or could have
    uint32_t workers = 0;   // of this run
    uint64_t slept_ns = 0;  // at barriers of this run
    uint64_t cpu_ns = 0;    // of this run, measured ones only
    uint64_t refused_ns = 0;
    bool crowded = false;           // who waits sleeps
    std::atomic<uint32_t> left{0};  // the last run that this worker has left
    std::atomic<int> thread{0};     // as the system numbers it; 0 = it has not begun
  };

  WorkerPool(uint32_t size, uint32_t cores);
  Status start_threads(const std::vector<int>& cores);
  void leave_workers_core(uint32_t workers) const noexcept;
  void run_erased(Erased call, void* function, uint32_t workers, WorkerGovernor* governor) noexcept;
  void open_run(uint32_t workers) noexcept;
  void enter(uint32_t worker) noexcept;
  RunCost cost_of_run(uint64_t wall_ns, uint32_t barriers) const noexcept;
  void serve(uint32_t worker) noexcept;
  uint32_t wait_for_start(uint32_t worker, uint32_t seen) noexcept;
  void sleep_until_start(uint32_t worker, uint32_t seen) noexcept;
  void wait_for(Flag& flag, uint32_t value, Local& me) noexcept;
  void sleep_until(Flag& flag, uint32_t value) const noexcept;
  void sleep_and_watch(Flag& flag, uint32_t value) noexcept;

  const uint32_t size_;
  const uint32_t cores_;
  std::vector<int> pinned_;        // where each worker stays, worker 0 but in name; empty: nowhere
  const uint32_t rounds_;          // ⌈log₂ size⌉
  const bool sleepers_fence_;      // who falls asleep at a barrier fences for its writer too
  const uint32_t spin_limit_;      // pauses before a waiting worker gives its core away
  std::unique_ptr<Flag[]> flags_;  // [size][rounds]
  std::unique_ptr<Local[]> locals_;  // [size]
  Flag start_;                       // {number of the run, workers that enter it}
  Flag sleepers_;                    // workers that sleep until the next run
  // Of the run at hand; written while nobody is inside.
  Erased call_ = nullptr;  // null tells workers to leave
  void* function_ = nullptr;
  uint32_t workers_ = 0;        // that enter
  uint32_t first_barrier_ = 0;  // barriers that all of them count from
  bool measured_ = false;
  bool crowded_ = false;
  // What each worker has waited for a processor, worker 0 first; empty: nobody has asked.
  std::vector<std::unique_ptr<ThreadWait>> waits_;
  std::vector<int64_t> waited_ns_;  // [workers], before worker 0 fell asleep
  std::atomic<int64_t> held_up_ns_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tenon
