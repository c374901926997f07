// Sampling rows of a large vocabulary, 32 a step: microseconds a row, and the fraction of the time
// that reading the logits once would take at the machine's memory bandwidth (`read`). `workers`
// share the rows out as the engine does.
#include <benchmark/benchmark.h>
#include <tenon/plugin.h>
#include <tenon/sampler.h>
#include <tenon/sdk/random.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"

namespace tenon::bench {
namespace {

constexpr uint32_t kVocabulary = 131072;
constexpr uint32_t kRows = 32;  // different ones, 16 MiB: as fresh from the model as a step's are

struct Setting {
  const char* name;
  SamplingParams params;
};
constexpr Setting kSettings[] = {
    {"greedy", {.temperature = 0.0f}},
    {"temperature", {.temperature = 0.8f}},
    {"top_k40", {.temperature = 0.8f, .top_k = 40}},
    {"top_k40_top_p", {.temperature = 0.8f, .top_k = 40, .top_p = 0.9f}},
    {"top_k50000", {.temperature = 0.8f, .top_k = 50000}},
    {"top_p", {.temperature = 0.8f, .top_p = 0.9f}},
    {"top_p_flat", {.temperature = 50.0f, .top_p = 0.95f}},
    {"min_p", {.temperature = 0.8f, .min_p = 0.05f}},
    {"typical_p", {.temperature = 0.8f, .typical_p = 0.9f}},
    {"top_n_sigma", {.temperature = 0.8f, .top_n_sigma = 1.0f}},
    {"penalties", {.temperature = 0.8f, .top_k = 40, .repetition_penalty = 1.1f}},
    {"dry", {.temperature = 0.8f, .top_k = 40, .dry_multiplier = 0.8f}},
    {"mirostat2", {.mirostat = 2}},
    {"watermark", {.top_k = 40, .watermark_delta = 2.0f}},
    {"greedy_logprobs5", {.temperature = 0.0f, .logprobs = 5}},
};

// Sums of four uniforms, stretched: bell-shaped, a few tokens stand out as in a model's rows.
std::vector<float> make_rows() {
  std::vector<float> logits(size_t{kRows} * kVocabulary);
  for (uint32_t i = 0; i < logits.size(); ++i) {
    const auto bits = sdk::philox({i, 0, 0, 0}, 1);
    double sum = 0.0;
    for (uint32_t word : bits) sum += static_cast<double>(word) * 0x1.0p-32 - 0.5;
    logits[i] = static_cast<float>(sum * sum * sum * 4.0);
  }
  return logits;
}

void bench_sample(benchmark::State& state, Sampler& sampler, const SamplingParams& params) {
  static const std::vector<float> logits = make_rows();
  static const std::vector<TokenId> history = [] {
    std::vector<TokenId> made(2000);
    for (uint32_t i = 0; i < made.size(); ++i) made[i] = static_cast<TokenId>((i * 7919) % 5000);
    return made;
  }();
  std::vector<SampleRow> rows(kRows);
  std::vector<SampleResult> results(kRows);
  std::vector<TokenLogprob> top(size_t{kRows} * params.logprobs);
  for (uint32_t i = 0; i < kRows; ++i) {
    (void)sampler.begin(i, params, kNoSeq);
    rows[i].seq = i;
    rows[i].logits = logits.data() + size_t{i} * kVocabulary;
    rows[i].vocabulary = kVocabulary;
    rows[i].history = history;
    results[i].top = std::span(top).subspan(size_t{i} * params.logprobs, params.logprobs);
  }
  const MachineLimits limits = limits_now();
  uint32_t position = 0;
  const Cost cost{.bytes = double{1} * kRows * kVocabulary * sizeof(float)};
  const auto next = [&] {
    for (SampleRow& row : rows) row.key = {1, row.seq, position};
    ++position;
  };
  std::vector<double> seconds;
  WorkerPool& pool = *machine().pool;
  for (auto _ : state) {
    next();
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](uint32_t worker) {
      const size_t first = kRows * worker / pool.size(), end = kRows * (worker + 1) / pool.size();
      (void)sampler.sample(std::span(rows).subspan(first, end - first),
                           std::span(results).subspan(first, end - first));
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
    state.SetIterationTime(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  state.counters["us_row"] = median * 1e6 / kRows;
  state.counters["read"] = cost.bytes / (limits.read_median_gbps * 1e9) / median;
  for (uint32_t i = 0; i < kRows; ++i) sampler.end(i);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon;
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 2;
  auto& sampler = kernel<Sampler>("sampler_standard", kSamplerInterface, "standard");
  for (const Setting& setting : kSettings) {
    benchmark::RegisterBenchmark((std::string("standard/") + setting.name).c_str(),
                                 [&](auto& state) { bench_sample(state, sampler, setting.params); })
        ->Unit(benchmark::kMillisecond)
        ->UseManualTime();
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
