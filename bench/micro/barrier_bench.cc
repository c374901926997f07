// Meetings of the workers, one by one: barriers inside a run, and runs that begin while workers are
// awake and after they fell asleep. Next to them the least that a meeting of two cores takes: a
// cache line that goes there and back.
//
//   barrier_bench [--threads=2]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>

#include "bench/micro/bench_machine.h"

namespace tenon::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSamples = 20000;
constexpr int kGroup = 8;  // meetings of one sample: the clock costs a part of one

double nanoseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

void print(const char* what, std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  std::printf("%-34s p50 %8.0f ns   p99 %8.0f ns   best %8.0f ns\n", what,
              samples[samples.size() / 2], samples[samples.size() * 99 / 100], samples.front());
}

void barriers() {
  std::vector<double> samples;
  samples.reserve(kSamples);
  WorkerPool& pool = *machine().pool;
  pool.run([&](uint32_t worker) {
    for (int i = 0; i < kSamples; ++i) {
      const auto start = Clock::now();
      for (int j = 0; j < kGroup; ++j) pool.barrier(worker);
      if (worker == 0) samples.push_back(nanoseconds(Clock::now() - start) / kGroup);
    }
  });
  print("barrier", samples);
}

void runs(const char* what, int count, std::chrono::microseconds pause) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    const auto wake = Clock::now() + pause;
    while (Clock::now() < wake) {
    }
    const auto start = Clock::now();
    machine().pool->run([](uint32_t) {});
    samples.push_back(nanoseconds(Clock::now() - start));
  }
  print(what, samples);
}

// Two threads hand a number to and fro: one meeting is one way.
void line_there_and_back() {
  if (machine().pool->size() < 2) return;
  struct alignas(64) Line {
    std::atomic<uint32_t> value{0};
  };
  Line there, back;
  std::vector<double> samples;
  samples.reserve(kSamples);
  machine().pool->run([&](uint32_t worker) {
    if (worker > 1) return;
    Line& mine = worker == 0 ? there : back;
    Line& other = worker == 0 ? back : there;
    for (uint32_t i = 0; i < kSamples; ++i) {
      const auto start = Clock::now();
      for (uint32_t j = 1; j <= kGroup; ++j) {
        const uint32_t count = i * kGroup + j;
        mine.value.store(count, std::memory_order_release);
        while (static_cast<int32_t>(other.value.load(std::memory_order_acquire) - count) < 0) {
        }
      }
      if (worker == 0) samples.push_back(nanoseconds(Clock::now() - start) / kGroup);
    }
  });
  print("lines exchanged by two threads", samples);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  line_there_and_back();
  barriers();
  runs("run, workers awake", 20000, std::chrono::microseconds(5));
  runs("run, workers asleep", 500, std::chrono::microseconds(2000));
  return 0;
}
