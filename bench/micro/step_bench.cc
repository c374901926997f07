// Whole steps of the CPU executor: decoding one or more sequences, and prefill, in fractions of
// what memory and arithmetic allow.
//
//   step_bench --model=PATH [--shape=llama-3.2-1b] [--linear=auto|dense|int8]
//              --benchmark_filter='decode/batch:1$'
//
// With --shape a checkpoint of random bf16 weights is made in PATH where there is none.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/bench_stepper.h"

namespace tenon::bench {
namespace {

void bench_step(benchmark::State& state, Stepper& stepper, uint32_t sequences, uint32_t rows,
                uint32_t last) {
  stepper.step(sequences, rows, last);  // touches what the steps touch
  const MachineLimits limits = limits_now();
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    stepper.step(sequences, rows, last);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
    state.SetIterationTime(took.count());
  }
  report(state, limits, stepper.cost(sequences, rows, last, limits), seconds);
  state.counters["tok/s"] = sequences * rows / seconds[seconds.size() / 2];
}

void add(Stepper& stepper, const std::string& name, uint32_t sequences, uint32_t rows,
         uint32_t last) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [&stepper, sequences, rows, last](auto& state) {
                                 bench_step(state, stepper, sequences, rows, last);
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->MinTime(1.0);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  const std::string path = take_model(argc, argv);
  const std::string linear = take_flag(argc, argv, "--linear", "auto");
  if (!start_machine(argc, argv)) return 1;
  Stepper stepper(path, linear);
  stepper.load();
  std::printf("%s: %s, %.2f GB of weights\n", path.c_str(), stepper.executor().numerics().c_str(),
              static_cast<double>(stepper.executor().weight_bytes()) / 1e9);
  for (const uint32_t sequences : {1u, 2u, 8u, 32u}) {
    add(stepper, "decode/batch:" + std::to_string(sequences), sequences, 1, 63);
  }
  add(stepper, "decode/batch:1/context:1000", 1, 1, 999);
  for (const uint32_t rows : {16u, 128u, 512u}) {
    add(stepper, "prefill/rows:" + std::to_string(rows), 1, rows, rows - 1);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
