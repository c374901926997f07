#include "core/base/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <chrono>
#include <string>
#include <system_error>

#include "core/base/cpu_cores.h"
#include "core/base/signal_stack.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tenon {
namespace {

// A barrier is usually met within microseconds; some 50 of them cost less than waking up.
constexpr uint32_t kSpinLimit = 1500;
// Looks between two pauses: a pause takes as long as a whole barrier.
constexpr uint32_t kLooks = 32;
// Between two steps the host samples and plans. A worker stays awake that long.
constexpr std::chrono::microseconds kIdleSpin{80};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sets the state that all workers share and puts the old one back.
class SharedFloatingPointState {
 public:
#if defined(__x86_64__)
  // All exceptions masked, round to nearest, flush to zero. Not denormals-are-zero: f16 weights
  // may be widened by way of subnormal f32 operands.
  SharedFloatingPointState() : old_(_mm_getcsr()) {
    _mm_setcsr(0x1f80u | 0x8000u);
  }
  ~SharedFloatingPointState() {
    _mm_setcsr(old_);
  }

 private:
  unsigned old_;
#else
  SharedFloatingPointState() {
    std::fegetenv(&old_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~SharedFloatingPointState() {
    std::fesetenv(&old_);
  }

 private:
  std::fenv_t old_;
#endif
};

void stay_on(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Refused in some containers; the worker then moves as the system likes.
  (void)::pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

}  // namespace

Result<std::unique_ptr<WorkerPool>> WorkerPool::start(const WorkerPoolOptions& options) {
  if (options.threads > kMaxThreads) {
    return invalid_argument(std::to_string(options.threads) + " threads; expected at most " +
                            std::to_string(kMaxThreads));
  }
  const std::vector<int> cores = usable_cores();
  const auto all = static_cast<uint32_t>(std::min<size_t>(cores.size(), kMaxThreads));
  const uint32_t size = options.threads == 0 ? all : options.threads;
  const bool crowded = size > cores.size();
  std::unique_ptr<WorkerPool> pool(new WorkerPool(size, crowded));
  TENON_RETURN_IF_ERROR(pool->start_threads(options.pin && !crowded ? cores : std::vector<int>()));
  return pool;
}

WorkerPool::WorkerPool(uint32_t size, bool crowded)
    : size_(size),
      rounds_(static_cast<uint32_t>(std::bit_width(size - 1))),
      spin_limit_(crowded ? 20 : kSpinLimit),
      flags_(std::make_unique<Flag[]>(size_t{size} * rounds_)),
      locals_(std::make_unique<Local[]>(size)) {}

Status WorkerPool::start_threads(const std::vector<int>& cores) {
  for (uint32_t worker = 1; worker < size_; ++worker) {
    try {
      threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::system_error& error) {
      return failed("cannot start worker thread " + std::to_string(worker) + " of " +
                    std::to_string(size_ - 1) + ": " + error.what() + "; use fewer threads");
    }
    if (!cores.empty()) stay_on(threads_.back(), cores[worker]);
  }
  return {};
}

WorkerPool::~WorkerPool() {
  call_ = nullptr;
  start_.value.fetch_add(1);
  start_.value.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run_erased(Erased call, void* function) noexcept {
  const SharedFloatingPointState state;
  if (size_ > 1) {
    call_ = call;
    function_ = function;
    // Both in one total order with a worker's entry into sleep: either it sees the new count, or
    // this thread sees the sleeper.
    start_.value.fetch_add(1);
    if (sleepers_.value.load() != 0) start_.value.notify_all();
  }
  call(function, 0);
  barrier(0);
}

void WorkerPool::serve(uint32_t worker) noexcept {
  const SignalStack stack;
  const SharedFloatingPointState state;
  for (uint32_t seen = 0;;) {
    seen = wait_for_start(seen);
    if (call_ == nullptr) return;
    call_(function_, worker);
    barrier(worker);
  }
}

uint32_t WorkerPool::wait_for_start(uint32_t seen) noexcept {
  const auto give_up = std::chrono::steady_clock::now() + kIdleSpin;
  while (start_.value.load(std::memory_order_acquire) == seen) {
    for (uint32_t i = 0; i < 16; ++i) pause();
    if (spin_limit_ < kSpinLimit || std::chrono::steady_clock::now() > give_up) {
      sleepers_.value.fetch_add(1);
      start_.value.wait(seen);
      sleepers_.value.fetch_sub(1);
    }
  }
  return seen + 1;
}

// Dissemination barrier (Hensgen, Finkel, Manber 1988): in round r a worker tells the one 2^r
// further on, and waits for the one 2^r before. Counts rather than senses, since a fast worker may
// be one barrier ahead of a slow one.
void WorkerPool::barrier(uint32_t worker) noexcept {
  const uint32_t count = ++locals_[worker].barriers;
  for (uint32_t round = 0; round < rounds_; ++round) {
    const uint32_t peer = (worker + (1u << round)) % size_;
    flags_[size_t{peer} * rounds_ + round].value.store(count, std::memory_order_release);
    wait_for(flags_[size_t{worker} * rounds_ + round].value, count);
  }
}

void WorkerPool::wait_for(const std::atomic<uint32_t>& flag, uint32_t value) const noexcept {
  for (uint32_t spins = 0;; ++spins) {
    for (uint32_t look = 0; look < kLooks; ++look) {
      const uint32_t now = flag.load(std::memory_order_acquire);
      if (static_cast<int32_t>(now - value) >= 0) return;
    }
    if (spins < spin_limit_) {
      pause();
    } else {
      ::sched_yield();
    }
  }
}

}  // namespace tenon
