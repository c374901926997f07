#include "core/exec/cpu/limits/machine_limits.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/threads/pause.h"
#include "core/base/threads/start_thread.h"
#include "core/exec/cpu/limits/limit_kernels.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of this thread.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class SpinBarrier {
 public:
  explicit SpinBarrier(uint32_t threads) : threads_(threads) {}
  void wait() {
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    while (generation_.load(std::memory_order_acquire) == generation) pause_core();
  }

 private:
  const uint32_t threads_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// Thread i on the i-th processor that this process may use; without permission it stays where it
// is.
void stay_on_processor(uint32_t index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const int count = CPU_COUNT(&allowed);
  if (count == 0) return;
  int wanted = static_cast<int>(index % static_cast<uint32_t>(count));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

// Anonymous memory in huge pages where the system gives them; smaller where it refuses.
class Buffer {
 public:
  Buffer() {
    for (size_t bytes = size_t{512} << 20; bytes >= (size_t{16} << 20); bytes /= 2) {
      void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (made == MAP_FAILED) continue;
      data_ = static_cast<std::byte*>(made);
      bytes_ = bytes;
      madvise(made, bytes, MADV_HUGEPAGE);
      return;
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

constexpr uint64_t kRounds = 100'000;  // 2e6 instructions, about half a millisecond
constexpr uint32_t kMeetings = 2'000;
constexpr size_t kWindowBytes = size_t{16} << 20;

struct Measurement {
  LimitKernels kernels;
  uint32_t threads;
  double budget_seconds;
  SpinBarrier barrier;
  Buffer buffer;
  std::atomic<bool> more{true};
  std::atomic<uint64_t> sink{0};
  MachineLimits limits;
  std::vector<double> shares;  // by thread

  Measurement(CpuFeatures isa, uint32_t thread_count, double seconds)
      : kernels(limit_kernels(isa)),
        threads(thread_count),
        budget_seconds(seconds),
        barrier(thread_count),
        shares(thread_count) {}

  // Work per second over the rounds of one kind.
  struct Rate {
    double best = 0;
    double median = 0;
  };

  // All threads do `work` again and again for `share` of the budget; thread 0 returns the rate.
  // Work returns how much it was.
  template <typename Work>
  Rate rate_of(uint32_t thread, double share, const Work& work) {
    std::vector<double> rates;
    const auto start = Clock::now();
    do {
      barrier.wait();
      const auto begin = Clock::now();
      const double done = work();
      barrier.wait();
      if (thread != 0) continue;
      rates.push_back(done * threads / seconds_since(begin));
      more.store(seconds_since(start) < share * budget_seconds, std::memory_order_relaxed);
    } while (go_on());
    if (rates.empty()) return {};
    std::sort(rates.begin(), rates.end());
    return {.best = rates.back(), .median = rates[rates.size() / 2]};
  }
  template <typename Work>
  double best_rate(uint32_t thread, double share, const Work& work) {
    return rate_of(thread, share, work).best;
  }

  // For the budget each.
  void reread(uint32_t thread, const std::vector<uint64_t>& sizes, std::vector<double>& rates) {
    stay_on_processor(thread);
    const size_t most = buffer.bytes() / threads / 1024 * 1024;
    if (most > 0) std::memset(buffer.data() + most * thread, 1, most);
    for (const uint64_t size : sizes) {
      const size_t part = size / threads / 1024 * 1024;
      const bool fits = part > 0 && part <= most;
      const Rate rate = rate_of(thread, 1, [&] {
        if (!fits) return 0.0;
        sink.fetch_add(kernels.read(buffer.data() + part * thread, part),
                       std::memory_order_relaxed);
        return static_cast<double>(part);
      });
      if (thread == 0) rates.push_back(rate.median / 1e9);
    }
  }

  void run(uint32_t thread) {
    stay_on_processor(thread);
    const auto start = Clock::now();
    const double computed = processor_seconds();
    measure(thread);
    // Waiting at the barriers is spinning: time without a processor is time that others had.
    const double share = (processor_seconds() - computed) / seconds_since(start);
    shares[thread] = std::clamp(share, 0.0, 1.0);
  }

 private:
  void measure(uint32_t thread) {
    const size_t part = buffer.bytes() / threads / 1024 * 1024;
    std::byte* mine = buffer.data() + part * thread;
    Rate read;
    if (part > 0) {
      std::memset(mine, 1, part);
      // In windows, so that a round is short enough to be left alone by other programs.
      const size_t window = std::min(part, kWindowBytes);
      size_t at = 0;
      read = rate_of(thread, 0.4, [&] {
        if (at + window > part) at = 0;
        sink.fetch_add(kernels.read(mine + at, window), std::memory_order_relaxed);
        at += window;
        return static_cast<double>(window);
      });
    }
    const double fma = best_rate(thread, 0.2, [&] { return kernels.fma(kRounds); });
    const double int8 = best_rate(thread, 0.15, [&] { return kernels.int8(kRounds); });
    double bf16 = 0;
    if (kernels.bf16 != nullptr) {
      bf16 = best_rate(thread, 0.15, [&] { return kernels.bf16(kRounds); });
    }
    const double meetings = best_rate(thread, 0.1, [&] {
      for (uint32_t i = 0; i < kMeetings; ++i) barrier.wait();
      return static_cast<double>(kMeetings);
    });
    if (thread != 0) return;
    limits = {.read_gbps = read.best / 1e9,
              .read_median_gbps = read.median / 1e9,
              .fma_flops = fma,
              .bf16_flops = bf16,
              .int8_ops = int8};
    if (threads > 1 && meetings > 0) limits.barrier_ns = 1e9 * threads / meetings;
  }

  // What thread 0 decided, read by all between two meetings.
  bool go_on() {
    barrier.wait();
    return more.load(std::memory_order_relaxed);
  }
};

}  // namespace

MachineLimits measure_machine_limits(CpuFeatures isa, uint32_t threads, double seconds_budget) {
  Measurement measurement(isa, std::max(threads, 1u), seconds_budget);
  run_together(measurement.threads, [&measurement](uint32_t i) { measurement.run(i); });
  measurement.limits.processor_share =
      std::accumulate(measurement.shares.begin(), measurement.shares.end(), 0.0) /
      measurement.threads;
  return measurement.limits;
}

std::vector<double> measure_rereading(CpuFeatures isa, uint32_t threads,
                                      const std::vector<uint64_t>& bytes, double seconds_each) {
  Measurement measurement(isa, std::max(threads, 1u), seconds_each);
  std::vector<double> rates;
  run_together(measurement.threads, [&](uint32_t i) { measurement.reread(i, bytes, rates); });
  return rates;
}

}  // namespace tenon
