#include "core/base/threads/worker_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <climits>
#include <ctime>
#include <span>
#include <string>
#include <system_error>

#include "core/base/machine/cpu_cores.h"
#include "core/base/machine/signal_stack.h"
#include "core/base/threads/heavy_fence.h"
#include "core/base/threads/pause.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tenon {
namespace {

// A barrier is usually met within microseconds; some 50 of them cost less than waking up.
constexpr uint32_t kSpinLimit = 1500;
// … and where the others may be off their processors: a barrier of those that are not is still met.
constexpr uint32_t kCrowdedSpinLimit = 40;
// Looks between two pauses: a pause takes as long as a whole barrier.
constexpr uint32_t kLooks = 32;
// Between two steps the host samples and plans. A worker stays awake that long.
constexpr uint64_t kIdleSpinNs = 80'000;
// A yield that takes longer has let somebody else run.
constexpr uint64_t kLongYieldNs = 200'000;

// The word that opens a run: its number, and how many workers enter it.
constexpr uint32_t kWorkersBits = 10;
static_assert(WorkerPool::kMaxThreads < 1u << kWorkersBits);
constexpr uint32_t start_word(uint32_t run, uint32_t workers) {
  return run << kWorkersBits | workers;
}
constexpr uint32_t workers_of(uint32_t word) {
  return word & ((1u << kWorkersBits) - 1);
}
constexpr uint32_t run_of(uint32_t word) {
  return word >> kWorkersBits;
}

// Who sleeps until a run starts: workers of the last run, and those that it was too many for.
constexpr uint32_t kEntered = 1, kSatOut = 2;

uint64_t now_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// Futexes themselves, since std::atomic::wait yields several times before it sleeps: next to busy
// processes each yield costs all their time slices.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, uint32_t who) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, nullptr, nullptr, who);
}
void wake(std::atomic<uint32_t>& word, uint32_t who) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, who);
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
  std::unique_ptr<WorkerPool> pool(new WorkerPool(size, static_cast<uint32_t>(cores.size())));
  const bool pin = options.pin && size > 1 && size <= cores.size();
  TENON_RETURN_IF_ERROR(pool->start_threads(pin ? cores : std::vector<int>()));
  return pool;
}

WorkerPool::WorkerPool(uint32_t size, uint32_t cores)
    : size_(size),
      cores_(cores),
      rounds_(static_cast<uint32_t>(std::bit_width(size - 1))),
      sleepers_fence_(size > 1 && enable_heavy_fences()),
      spin_limit_(size > cores ? 20 : kSpinLimit),
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
  pinned_ = cores;
  return {};
}

// A thread that never sleeps stays next to a worker for seconds while another core is idle: the
// system looks for a better place when a thread wakes, and seldom besides.
void WorkerPool::leave_workers_core(uint32_t workers) const noexcept {
  if (pinned_.empty() || workers < 2) return;
  const auto others = std::span(pinned_).subspan(1, workers - 1);
  if (std::ranges::find(others, ::sched_getcpu()) == others.end()) return;
  cpu_set_t all, free;
  if (::sched_getaffinity(0, sizeof(all), &all) != 0) return;
  free = all;
  for (const int core : others) CPU_CLR(core, &free);
  if (CPU_COUNT(&free) == 0 || ::sched_setaffinity(0, sizeof(free), &free) != 0) return;
  (void)::sched_setaffinity(0, sizeof(all), &all);
}

WorkerPool::~WorkerPool() {
  call_ = nullptr;
  open_run(size_);
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run_erased(Erased call, void* function, uint32_t workers,
                            WorkerGovernor* governor) noexcept {
  const SharedFloatingPointState state;
  leave_workers_core(workers);
  const uint64_t start = governor == nullptr ? 0 : now_ns(CLOCK_MONOTONIC);
  call_ = call;
  function_ = function;
  measured_ = governor != nullptr;
  crowded_ = governor != nullptr && governor->crowded();
  first_barrier_ = locals_[0].barriers;
  open_run(workers);
  enter(0);
  if (governor == nullptr) return;
  governor->add(cost_of_run(now_ns(CLOCK_MONOTONIC) - start, locals_[0].barriers - first_barrier_));
}

// Where another number of workers enters than before, the flags of barriers change their writers:
// nobody may be on the way out of the last run any more.
void WorkerPool::open_run(uint32_t workers) noexcept {
  const uint32_t last = start_.value.load(std::memory_order_relaxed);
  const uint32_t entered = workers_of(last);
  for (uint32_t worker = 1; worker < entered && workers != entered; ++worker) {
    while (locals_[worker].left.load(std::memory_order_acquire) != run_of(last)) ::sched_yield();
  }
  workers_ = workers;
  // Both in one total order with a worker's entry into sleep: either it sees the new word, or this
  // thread sees the sleeper. Who sat out counts as no sleeper and is woken when it is needed.
  start_.value.store(start_word(run_of(last) + 1, workers));
  if (workers > entered) {
    wake(start_.value, kEntered | kSatOut);
  } else if (sleepers_.value.load() != 0) {
    wake(start_.value, kEntered);
  }
}

// One worker's part of a run. Time spent asleep at a barrier is nobody's: what is left of the wall
// time without processor time is what the worker was refused.
void WorkerPool::enter(uint32_t worker) noexcept {
  Local& me = locals_[worker];
  me.barriers = first_barrier_;
  me.workers = workers_;
  me.crowded = crowded_;
  me.slept_ns = 0;
  if (measured_) {
    const uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), wall = now_ns(CLOCK_MONOTONIC);
    call_(function_, worker);
    me.cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    const uint64_t awake = now_ns(CLOCK_MONOTONIC) - wall - me.slept_ns;
    me.refused_ns = awake > me.cpu_ns ? awake - me.cpu_ns : 0;
  } else {
    call_(function_, worker);
  }
  barrier(worker);
}

RunCost WorkerPool::cost_of_run(uint64_t wall_ns, uint32_t barriers) const noexcept {
  RunCost cost{.workers = workers_, .barriers = barriers, .wall_ns = wall_ns};
  for (uint32_t worker = 0; worker < workers_; ++worker) {
    const Local& local = locals_[worker];
    cost.cpu_ns += local.cpu_ns;
    cost.refused_ns += local.refused_ns;
  }
  return cost;
}

void WorkerPool::serve(uint32_t worker) noexcept {
  const SignalStack stack;
  const SharedFloatingPointState state;
  locals_[worker].thread.store(static_cast<int>(::syscall(SYS_gettid)), std::memory_order_relaxed);
  for (uint32_t seen = 0;;) {
    seen = wait_for_start(worker, seen);
    if (call_ == nullptr) return;
    enter(worker);
    locals_[worker].left.store(run_of(seen), std::memory_order_release);
  }
}

// The word of the next run that this worker enters. Runs without it may come and go meanwhile; one
// with it stays until it has entered.
uint32_t WorkerPool::wait_for_start(uint32_t worker, uint32_t seen) noexcept {
  const bool awake = !locals_[worker].crowded && spin_limit_ == kSpinLimit;
  const uint64_t give_up = awake ? now_ns(CLOCK_MONOTONIC) + kIdleSpinNs : 0;
  for (;;) {
    const uint32_t word = start_.value.load(std::memory_order_acquire);
    if (word != seen && workers_of(word) > worker) return word;
    seen = word;
    for (uint32_t i = 0; i < 16; ++i) pause_core();
    if (!awake || workers_of(word) <= worker || now_ns(CLOCK_MONOTONIC) > give_up) {
      sleep_until_start(worker, seen);
    }
  }
}

void WorkerPool::sleep_until_start(uint32_t worker, uint32_t seen) noexcept {
  if (workers_of(seen) <= worker) return sleep_while(start_.value, seen, kSatOut);
  sleepers_.value.fetch_add(1);
  if (start_.value.load() == seen) sleep_while(start_.value, seen, kEntered);
  sleepers_.value.fetch_sub(1);
}

// Dissemination barrier (Hensgen, Finkel, Manber 1988): in round r a worker tells the one 2^r
// further on, and waits for the one 2^r before. Counts rather than senses, since a fast worker may
// be one barrier ahead of a slow one.
void WorkerPool::barrier(uint32_t worker) noexcept {
  Local& me = locals_[worker];
  const uint32_t count = ++me.barriers;
  const auto rounds = static_cast<uint32_t>(std::bit_width(me.workers - 1));
  for (uint32_t round = 0; round < rounds; ++round) {
    const uint32_t peer = (worker + (1u << round)) % me.workers;
    Flag& told = flags_[size_t{peer} * rounds_ + round];
    // One total order with the peer's `sleeps`: it sees the count, or is seen asleep.
    if (sleepers_fence_) {
      told.value.store(count, std::memory_order_release);
      light_fence();
    } else {
      told.value.store(count);
    }
    if (told.sleeps.load() != 0) wake(told.value, kEntered);
    wait_for(flags_[size_t{worker} * rounds_ + round], count, me);
  }
}

// Looks, then yields while that costs nothing, then sleeps: a yield that lets somebody else run
// says that others want this processor, and perhaps the one that is waited for is among those who
// wait for it.
void WorkerPool::wait_for(Flag& flag, uint32_t value, Local& me) noexcept {
  const auto reached = [&] {
    return static_cast<int32_t>(flag.value.load(std::memory_order_acquire) - value) >= 0;
  };
  const uint32_t limit = me.crowded ? std::min(spin_limit_, kCrowdedSpinLimit) : spin_limit_;
  for (uint32_t spins = 0; spins < limit; ++spins) {
    for (uint32_t look = 0; look < kLooks; ++look) {
      if (reached()) return;
    }
    pause_core();
  }
  while (!me.crowded) {
    if (reached()) return;
    const uint64_t before = now_ns(CLOCK_MONOTONIC);
    ::sched_yield();
    me.crowded = now_ns(CLOCK_MONOTONIC) - before > kLongYieldNs;
  }
  const uint64_t before = now_ns(CLOCK_MONOTONIC);
  if (waits_.empty() || &me != locals_.get()) {
    sleep_until(flag, value);
  } else {
    sleep_and_watch(flag, value);
  }
  me.slept_ns += now_ns(CLOCK_MONOTONIC) - before;
}

// What worker 0 itself waits for a processor after it was woken is not counted.
void WorkerPool::sleep_and_watch(Flag& flag, uint32_t value) noexcept {
  for (uint32_t worker = 0; worker < size_; ++worker) {
    waited_ns_[worker] = waits_[worker]->now_ns();
  }
  const uint64_t before = now_ns(CLOCK_MONOTONIC);
  sleep_until(flag, value);
  const auto slept_ns = static_cast<int64_t>(now_ns(CLOCK_MONOTONIC) - before);
  int64_t longest_ns = 0;
  for (uint32_t worker = 1; worker < size_; ++worker) {
    longest_ns = std::max(longest_ns, waits_[worker]->now_ns() - waited_ns_[worker]);
  }
  const int64_t own_ns = waits_[0]->now_ns() - waited_ns_[0];
  held_up_ns_.fetch_add(std::clamp<int64_t>(slept_ns - own_ns, 0, longest_ns),
                        std::memory_order_relaxed);
}

int64_t WorkerPool::held_up_ns() {
  if (!waits_.empty()) return held_up_ns_.load(std::memory_order_relaxed);
  waits_.push_back(std::make_unique<ThreadWait>());
  for (uint32_t worker = 1; worker < size_; ++worker) {
    // One whose processor others have may not have begun yet, and has no number then.
    while (locals_[worker].thread.load() == 0) ::sched_yield();
    waits_.push_back(std::make_unique<ThreadWait>(
        "/proc/self/task/" + std::to_string(locals_[worker].thread.load()) + "/schedstat"));
  }
  waited_ns_.resize(size_);
  return 0;
}

void WorkerPool::sleep_until(Flag& flag, uint32_t value) const noexcept {
  flag.sleeps.store(1);
  if (sleepers_fence_) heavy_fence();
  for (uint32_t seen = flag.value.load(); static_cast<int32_t>(seen - value) < 0;
       seen = flag.value.load()) {
    sleep_while(flag.value, seen, kEntered);
  }
  flag.sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace tenon
