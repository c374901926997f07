// The cost of a step apart from the model: scheduler, ledger, KV manager, tables, bookkeeping, with
// an executor and a sampler that answer at once. All sequences decode.
//
//   plan_bench --benchmark_filter='paged/1024'
//   plan_bench --benchmark_filter='continuous/paged/256(/checks|/isolate)?$'   what engine.guard
//   costs
//
// Counters, medians over steps in microseconds: `scheduler` without the ledger, `kv` the ledger and
// the manager in it, `engine` all else; `plan` = scheduler + kv.
#include <tenon/kv_cache.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/micro/bench_isolated.h"
#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"
#include "core/engine/engine.h"
#include "tests/support/instant_executor.h"

namespace tenon::bench {
namespace {

constexpr uint32_t kVocabulary = 8;
constexpr uint32_t kPrompt = 100;
constexpr uint32_t kBlock = 16;
constexpr uint32_t kContext = 4096;

class InstantSampler final : public Sampler {
 public:
  Status begin(SeqId, const SamplingParams&, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status sample(std::span<const SampleRow>, std::span<SampleResult> results) noexcept override {
    for (SampleResult& result : results) result.token = 1;
    return {};
  }
  Status verify(std::span<const VerifyRows>, std::span<VerifyResult>) noexcept override {
    return {};
  }
  Status distribution(const SampleRow&, std::span<float>) noexcept override { return {}; }
};

enum class Guard { off, checks, isolate };

double median_us(std::vector<int64_t>& times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return static_cast<double>(times[times.size() / 2]) / 1e3;
}

struct Parts {
  std::vector<int64_t> scheduler, kv, engine, plan, step;

  void add(const StepRecord& record) {
    scheduler.push_back(record.times.scheduler_ns);
    kv.push_back(record.times.kv_cache_ns);
    engine.push_back(record.times.engine_ns);
    plan.push_back(record.times.scheduler_ns + record.times.kv_cache_ns);
    step.push_back(record.end_ns - record.start_ns);
  }
  void report(benchmark::State& state) {
    state.counters["scheduler"] = median_us(scheduler);
    state.counters["kv"] = median_us(kv);
    state.counters["engine"] = median_us(engine);
    state.counters["plan"] = median_us(plan);
    state.counters["step"] = median_us(step);
  }
};

// `decoding` sequences run; `waiting` more have no row.
void bench_plan(benchmark::State& state, const std::string& scheduler, const std::string& kv,
                uint32_t decoding, uint32_t waiting, Guard guard) {
  const uint32_t context = kv == "naive" ? 2048 : kContext;
  const uint32_t block = kv == "naive" ? context : kBlock;
  KvGroup group;
  ModelShape shape;
  shape.vocabulary = kVocabulary;
  shape.group_count = 1;
  shape.groups = &group;
  KvGroupGeometry blocks{DType::f32, block, decoding * (2048 / block), 8};
  InstantExecutor executor(kVocabulary);
  InstantSampler sampler;
  WallClock clock;
  EngineParts parts;
  if (guard == Guard::isolate) {
    parts.scheduler = isolated<Scheduler>("scheduler_" + scheduler, scheduler, kBlock, 1);
  } else {
    parts.scheduler = &kernel<Scheduler>("scheduler_" + scheduler, kSchedulerInterface, scheduler);
  }
  if (parts.scheduler == nullptr) return state.SkipWithError("no scheduler");
  parts.kv_cache = &kernel<KVCacheManager>("kv_cache_" + kv, kKvCacheInterface, kv);
  parts.sampler = &sampler;
  parts.executor = &executor;
  parts.shape = &shape;
  parts.geometry.context_tokens = context;
  parts.geometry.max_sequences = decoding;
  parts.geometry.group_count = 1;
  parts.geometry.groups = &blocks;
  parts.limits = {decoding, 1u << 20, context};
  parts.clock = &clock;
  if (!parts.kv_cache->bind(shape, parts.geometry).ok()) return state.SkipWithError("bind");
  Parts times;
  bool measuring = false;
  EngineOptions options;
  options.check_calls = guard != Guard::off;
  options.on_step = [&](const StepRecord& record) {
    if (measuring) times.add(record);
  };
  Engine engine(parts, options);
  for (uint32_t i = 0; i < decoding + waiting; ++i) {
    Request request;
    request.prompt.assign(kPrompt, static_cast<TokenId>(i % kVocabulary));
    request.max_tokens = 1900;
    request.tenant = i % 7;
    if (!engine.submit(std::move(request)).ok()) return state.SkipWithError("submit");
  }
  for (int i = 0; i < 10; ++i) (void)engine.step();
  measuring = true;
  for (auto _ : state) (void)engine.step();
  const std::string& fault = engine.last_fault();
  if (!fault.empty()) return state.SkipWithError(fault.c_str());
  if (times.step.empty()) return state.SkipWithError("no steps");
  times.report(state);
  engine.run_until_idle(0).ok();
}

void add(const char* scheduler, const char* kv, uint32_t decoding, uint32_t waiting,
         Guard guard = Guard::off) {
  constexpr const char* kGuards[] = {"", "/checks", "/isolate"};
  const std::string name = std::string(scheduler) + "/" + kv + "/" + std::to_string(decoding) +
                           (waiting > 0 ? "/waiting" : "") + kGuards[static_cast<int>(guard)];
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) { bench_plan(state, scheduler, kv, decoding, waiting, guard); })
      ->Iterations(1000)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  for (const uint32_t decoding : {256u, 1024u}) {
    for (const uint32_t waiting : {0u, 1000u}) {
      for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
        for (const Guard guard : {Guard::off, Guard::checks, Guard::isolate}) {
          add(scheduler, "paged", decoding, waiting, guard);
        }
      }
      add("chunked", "prefix", decoding, waiting);
      add("chunked", "radix", decoding, waiting);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
