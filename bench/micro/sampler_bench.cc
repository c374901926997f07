// Sampling one row of a large vocabulary: microseconds a row, and GB/s of logits read.
#include <benchmark/benchmark.h>
#include <tenon/plugin.h>
#include <tenon/sampler.h>
#include <tenon/sdk/random.h>

#include <string>
#include <vector>

#include "bench/micro/bench_plugin.h"

namespace tenon::bench {
namespace {

constexpr uint32_t kVocabulary = 131072;
constexpr uint32_t kRows = 16;  // different ones, 8 MiB: as fresh from the model as a step's are

struct Setting {
  const char* name;
  SamplingParams params;
};
constexpr Setting kSettings[] = {
    {"greedy", {.temperature = 0.0f}},
    {"temperature", {.temperature = 0.8f}},
    {"top_k40", {.temperature = 0.8f, .top_k = 40}},
    {"top_k40_top_p", {.temperature = 0.8f, .top_k = 40, .top_p = 0.9f}},
    {"top_p", {.temperature = 0.8f, .top_p = 0.9f}},
    {"top_p_hot", {.temperature = 50.0f, .top_p = 0.9f}},
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
  (void)sampler.begin(1, params, kNoSeq);
  std::vector<TokenLogprob> top(params.logprobs);
  uint32_t position = 0;
  for (auto _ : state) {
    SampleRow row;
    row.seq = 1;
    row.logits = logits.data() + size_t{position % kRows} * kVocabulary;
    row.vocabulary = kVocabulary;
    row.key = {1, 0, position++};
    SampleResult result;
    result.top = top;
    (void)sampler.sample({&row, 1}, {&result, 1});
    benchmark::DoNotOptimize(result.token);
  }
  sampler.end(1);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kVocabulary * sizeof(float));
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon;
  using namespace tenon::bench;
  auto& sampler = kernel<Sampler>("sampler_standard", kSamplerInterface, "standard");
  for (const Setting& setting : kSettings) {
    benchmark::RegisterBenchmark((std::string("standard/") + setting.name).c_str(),
                                 [&](auto& state) { bench_sample(state, sampler, setting.params); })
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
