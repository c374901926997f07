#include "bench/micro/bench_machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/base/machine/cpu_features.h"

namespace tenon::bench {

Machine& machine() {
  static Machine instance;
  return instance;
}

bool start_machine(int& argc, char** argv) {
  Machine& here = machine();
  here.facts.cpu = detect_cpu_features();
  here.facts.slow_bf16_dot = detect_slow_bf16_dot();
  WorkerPoolOptions options;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag.starts_with("--threads=")) {
      options.threads = static_cast<uint32_t>(std::atoi(argv[i] + 10));
    } else if (flag.starts_with("--dot=")) {
      here.facts.slow_bf16_dot = flag == "--dot=0";
    } else if (flag.starts_with("--isa=")) {
      const Result<CpuFeatures> isa = parse_cpu_isa(flag.substr(6));
      if (!isa.ok()) {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(isa.status().message().size()),
                     isa.status().message().data());
        return false;
      }
      here.facts.cpu = *isa;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  auto pool = WorkerPool::start(options);
  if (!pool.ok()) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(pool.status().message().size()),
                 pool.status().message().data());
    return false;
  }
  here.pool = *std::move(pool);
  here.facts.workers = here.pool->size();
  const MachineLimits limits = measure_machine_limits(here.facts.cpu, here.facts.workers, 1.0);
  std::printf(
      "%s, %s, %u threads: read %.1f GB/s, fp32 %.3f, bf16 %.3f, int8 %.3f Tops/s, "
      "barrier %.0f ns\n",
      cpu_brand().c_str(), cpu_isa_name(here.facts.cpu).data(), here.facts.workers,
      limits.read_gbps, limits.fma_flops / 1e12, limits.bf16_flops / 1e12, limits.int8_ops / 1e12,
      limits.barrier_ns);
  return true;
}

MachineLimits limits_now() {
  return measure_machine_limits(machine().facts.cpu, machine().facts.workers, 0.25);
}

void report(benchmark::State& state, const MachineLimits& limits, const Cost& cost,
            std::vector<double>& seconds) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  const double best = seconds.front();
  const double median = seconds[seconds.size() / 2];
  state.counters["GB/s"] = cost.bytes / median / 1e9;
  state.counters["Gop/s"] = cost.operations / median / 1e9;
  state.counters["read"] = cost.bytes / median / (limits.read_gbps * 1e9);
  state.counters["read_best"] = cost.bytes / best / (limits.read_gbps * 1e9);
  if (cost.operation_limit <= 0) return;
  const double computing = cost.operations / cost.operation_limit;
  state.counters["roof"] =
      std::max(computing, cost.bytes / (limits.read_median_gbps * 1e9)) / median;
  state.counters["roof_best"] = std::max(computing, cost.bytes / (limits.read_gbps * 1e9)) / best;
  state.counters["ops"] = cost.operations / median / cost.operation_limit;
  state.counters["ops_best"] = cost.operations / best / cost.operation_limit;
}

}  // namespace tenon::bench
