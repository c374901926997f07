// What a process of its own costs a sampler and a drafter: the same calls here and there.
//
//   guard_bench --benchmark_filter=sample
//
// `sample/<vocabulary>/<rows>` draws greedily; `draft/<sequences>` offers and drafts over histories
// of 512 tokens. A scheduler's is in plan_bench.
#include <tenon/drafter.h>
#include <tenon/sampler.h>

#include <vector>

#include "bench/micro/bench_isolated.h"
#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"

namespace tenon::bench {
namespace {

constexpr uint32_t kHistory = 512;

void bench_sample(benchmark::State& state, Sampler* sampler, uint32_t vocabulary, uint32_t rows) {
  if (sampler == nullptr) return state.SkipWithError("no sampler");
  std::vector<float> logits(size_t{vocabulary} * rows);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 2654435761u >> 7) % 1000) * 0.01f;
  }
  const std::vector<TokenId> history(kHistory, 1);
  std::vector<SampleRow> asked(rows);
  std::vector<SampleResult> results(rows);
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  for (uint32_t i = 0; i < rows; ++i) {
    if (!sampler->begin(i, greedy, kNoSeq).ok()) return state.SkipWithError("begin");
    asked[i].seq = i;
    asked[i].logits = logits.data() + size_t{i} * vocabulary;
    asked[i].vocabulary = vocabulary;
    asked[i].history = history;
    asked[i].prompt_tokens = kHistory;
  }
  for (auto _ : state) {
    if (!sampler->sample(asked, results).ok()) return state.SkipWithError("sample");
  }
  for (uint32_t i = 0; i < rows; ++i) (void)sampler->end(i);
}

void bench_draft(benchmark::State& state, Drafter* drafter, uint32_t sequences) {
  if (drafter == nullptr) return state.SkipWithError("no drafter");
  constexpr uint32_t kDrafts = 4;
  ModelShape shape;
  shape.vocabulary = 1000;
  HiddenLayersOut wanted;
  if (!drafter->bind(shape, wanted).ok()) return state.SkipWithError("bind");
  std::vector<std::vector<TokenId>> texts(sequences);
  std::vector<DraftRequest> requests(sequences);
  std::vector<DraftOut> drafts(sequences);
  std::vector<uint32_t> offered(sequences);
  for (uint32_t i = 0; i < sequences; ++i) {
    for (uint32_t t = 0; t < kHistory; ++t) texts[i].push_back(static_cast<TokenId>(t % 37 + i));
    texts[i].resize(kHistory + kDrafts);
    requests[i] = {i, std::span<const TokenId>(texts[i]).first(kHistory), kDrafts, {}};
    drafts[i].tokens = std::span(texts[i]).subspan(kHistory);
    if (!drafter->begin(i, kNoSeq).ok()) return state.SkipWithError("begin");
  }
  for (auto _ : state) {
    if (!drafter->offer(requests, offered).ok()) return state.SkipWithError("offer");
    if (!drafter->draft(requests, drafts).ok()) return state.SkipWithError("draft");
  }
  for (uint32_t i = 0; i < sequences; ++i) (void)drafter->end(i);
}

template <typename Body>
void add(const std::string& name, const Body& body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond);
}

void add_samples(uint32_t vocabulary, uint32_t rows) {
  const std::string name = "sample/" + std::to_string(vocabulary) + "/" + std::to_string(rows);
  add(name, [=](benchmark::State& state) {
    bench_sample(state, &kernel<Sampler>("sampler_standard", kSamplerInterface, "standard"),
                 vocabulary, rows);
  });
  add(name + "/isolate", [=](benchmark::State& state) {
    static auto* const kSampler = isolated<Sampler>("sampler_standard", "standard", 16, 2);
    bench_sample(state, kSampler, vocabulary, rows);
  });
}

void add_drafts(uint32_t sequences) {
  const std::string name = "draft/" + std::to_string(sequences);
  add(name, [=](benchmark::State& state) {
    bench_draft(state, &kernel<Drafter>("drafter_ngram", kDrafterInterface, "ngram"), sequences);
  });
  add(name + "/isolate", [=](benchmark::State& state) {
    bench_draft(state, isolated<Drafter>("drafter_ngram", "ngram", 16, 1), sequences);
  });
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  for (const uint32_t vocabulary : {32'768u, 131'072u}) {
    for (const uint32_t rows : {1u, 16u}) add_samples(vocabulary, rows);
  }
  for (const uint32_t sequences : {1u, 64u}) add_drafts(sequences);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
