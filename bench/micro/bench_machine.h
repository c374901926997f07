// The machine that a benchmark runs on: its facts, its workers, and its limits of the moment.
//
// Flags, taken out of argv before Google Benchmark sees it:
//   --threads=N   workers (default: one a core)
//   --isa=NAME    lower the instruction set
//   --dot=0|1     whether bf16 dot products count as fast (default: what the processor says)
#pragma once

#include <benchmark/benchmark.h>
#include <tenon/host.h>

#include <chrono>
#include <memory>
#include <vector>

#include "core/base/threads/worker_pool.h"
#include "core/exec/cpu/limits/machine_limits.h"

namespace tenon::bench {

struct Machine {
  HostFacts facts;
  std::unique_ptr<WorkerPool> pool;
};

// The process's machine, set up by `start_machine`.
Machine& machine();
// Reads the flags and starts the workers; false after a message about a bad flag.
bool start_machine(int& argc, char** argv);
// Measures the limits; the machine's state changes by the second, so each benchmark asks anew.
MachineLimits limits_now();

// What one iteration moves and computes, and the rate that its operations cannot exceed.
struct Cost {
  double bytes = 0;
  double operations = 0;
  double operation_limit = 0;  // operations/s
};

// Calls `before()` on this thread and then `work(slice)` on all workers, once an iteration; only
// `work` is timed. Counters: speeds by the median iteration, fractions of the limits by the median
// and by the best one: neighbours on the machine slow iterations down, never up. `roof` is the
// fraction of the slower of the two limits.
void report(benchmark::State& state, const MachineLimits& limits, const Cost& cost,
            std::vector<double>& seconds);

template <typename Before, typename Work>
void measure(benchmark::State& state, const MachineLimits& limits, const Cost& cost,
             const Before& before, const Work& work) {
  WorkerPool& pool = *machine().pool;
  const uint32_t count = pool.size();
  std::vector<double> seconds;
  for (auto _ : state) {
    before();
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](uint32_t worker) { work(Slice{worker, count}); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
    state.SetIterationTime(took.count());
  }
  report(state, limits, cost, seconds);
}

}  // namespace tenon::bench
