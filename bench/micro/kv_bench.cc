// The cost of KV managers apart from the model, against each other: every iteration runs the same
// calls on each of them in turn, so that whatever else the machine does falls on all.
//
//   kv_bench --benchmark_filter='decode/256'
//
// Counters: medians in microseconds, `prefix/paged` and `radix/paged` medians of the ratio of two
// neighbours in time.
#include <tenon/kv_cache.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "bench/micro/bench_machine.h"
#include "bench/micro/bench_plugin.h"

namespace tenon::bench {
namespace {

constexpr uint32_t kBlock = 16;
constexpr uint32_t kContext = 4096;
constexpr const char* kManagers[] = {"paged", "prefix", "radix"};

void leave_unless(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  std::exit(1);
}

// Tokens without anything in common between kinds.
std::vector<TokenId> tokens(uint32_t count, uint32_t kind) {
  std::vector<TokenId> made(count);
  for (uint32_t i = 0; i < count; ++i) {
    made[i] = static_cast<TokenId>((i * 2654435761u + kind * 40503u) >> 4);
  }
  return made;
}

// A manager and the sequences that it serves.
class Served {
 public:
  Served(const std::string& id, uint32_t blocks, uint32_t sequences)
      : kv_(&kernel<KVCacheManager>("kv_cache_" + id, kKvCacheInterface, id)) {
    KvGroup group;
    ModelShape shape;
    shape.group_count = 1;
    shape.groups = &group;
    KvGroupGeometry size{DType::f32, kBlock, blocks, 8};
    KvGeometry geometry;
    geometry.context_tokens = kContext;
    geometry.max_sequences = sequences;
    geometry.group_count = 1;
    geometry.groups = &size;
    leave_unless(kv_->bind(shape, geometry));
  }

  void begin_step() { leave_unless(kv_->step_begin(++step_)); }
  void end_step() { leave_unless(kv_->step_done(step_)); }
  void begin(SeqId seq) { leave_unless(kv_->begin({seq, {}, kContext, kNoSeq, 0})); }
  void end(SeqId seq) { leave_unless(kv_->release(seq, ReleaseHow::end)); }
  uint32_t ready(SeqId seq, std::span<const TokenId> known) {
    KvMatch found;
    leave_unless(kv_->match(seq, known, static_cast<uint32_t>(known.size()), found));
    return found.ready;
  }
  // All that is known after `computed`; returns where it begins.
  uint32_t grow(SeqId seq, std::span<const TokenId> known, uint32_t computed) {
    KvGrant grant;
    const auto left = static_cast<uint32_t>(known.size()) - computed;
    leave_unless(kv_->grow({.seq = seq,
                            .tokens = known,
                            .known_tokens = static_cast<uint32_t>(known.size()),
                            .computed = computed,
                            .at_least = 1,
                            .at_most = left},
                           grant));
    return computed + grant.reused;
  }
  void look_up(SeqId seq) {
    KvTableView view;
    leave_unless(kv_->table(seq, 0, view));
    benchmark::DoNotOptimize(view.blocks.data());
  }
  void resolve(SeqId seq, std::span<const TokenId> known, uint32_t base, uint32_t computed) {
    if (kept_.size() < computed) {
      kept_.resize(computed);
      std::iota(kept_.begin(), kept_.end(), 0u);
    }
    leave_unless(kv_->resolve({.seq = seq,
                               .tokens = known,
                               .base = base,
                               .kept = std::span(kept_).first(computed - base),
                               .computed = computed}));
  }
  // A step that computes `known` and whatever it says after that, and the sequence's end.
  void serve(SeqId seq, std::span<const TokenId> known) {
    begin(seq);
    begin_step();
    const uint32_t base = grow(seq, known, 0);
    look_up(seq);
    end_step();
    resolve(seq, known, base, static_cast<uint32_t>(known.size()));
    end(seq);
  }

 private:
  KVCacheManager* kv_;
  uint64_t step_ = 0;
  std::vector<uint32_t> kept_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Times {
 public:
  template <typename Body>
  void measure(size_t manager, Body&& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    us_[manager].push_back(took.count());
  }
  void report(benchmark::State& state) const {
    for (size_t m = 0; m < std::size(kManagers); ++m) {
      state.counters[std::string(kManagers[m]) + "_us"] = median(us_[m]);
      if (m == 0) continue;
      std::vector<double> ratios;
      for (size_t i = 0; i < us_[m].size(); ++i) ratios.push_back(us_[m][i] / us_[0][i]);
      state.counters[std::string(kManagers[m]) + "/paged"] = median(ratios);
    }
  }

 private:
  std::vector<double> us_[std::size(kManagers)];
};

std::vector<Served> all_managers(uint32_t blocks, uint32_t sequences) {
  std::vector<Served> made;
  for (const char* id : kManagers) made.emplace_back(id, blocks, sequences);
  return made;
}

// Every sequence gets a token a step; nothing is in common.
void bench_decode(benchmark::State& state, uint32_t sequences) {
  std::vector<Served> managers = all_managers(sequences * 160, sequences);
  std::vector<std::vector<TokenId>> known;
  uint32_t computed = 100;
  for (uint32_t s = 0; s < sequences; ++s) {
    known.push_back(tokens(kContext, s));
    for (Served& kv : managers) {
      kv.begin(s);
      const std::span prompt = std::span(known[s]).first(computed);
      kv.resolve(s, prompt, kv.grow(s, prompt, 0), computed);
    }
  }
  Times times;
  for (auto _ : state) {
    ++computed;
    for (size_t m = 0; m < managers.size(); ++m) {
      times.measure(m, [&] {
        Served& kv = managers[m];
        kv.begin_step();
        for (uint32_t s = 0; s < sequences; ++s) {
          kv.grow(s, std::span(known[s]).first(computed), computed - 1);
        }
        for (uint32_t s = 0; s < sequences; ++s) kv.look_up(s);
        kv.end_step();
        for (uint32_t s = 0; s < sequences; ++s) {
          kv.resolve(s, std::span(known[s]).first(computed + 1), computed - 1, computed);
        }
      });
    }
  }
  times.report(state);
}

// A prompt of 512 tokens comes, is computed and goes; the cache is full of others.
void bench_admission(benchmark::State& state, uint32_t common) {
  std::vector<Served> managers = all_managers(4096, 64);
  uint32_t kind = 1;
  const std::vector<TokenId> stem = tokens(common, 0);
  const auto prompt = [&] {
    std::vector<TokenId> made = stem;
    const std::vector<TokenId> tail = tokens(512 - common, ++kind);
    made.insert(made.end(), tail.begin(), tail.end());
    return made;
  };
  for (int i = 0; i < 200; ++i) {
    const std::vector<TokenId> known = prompt();
    for (Served& kv : managers) kv.serve(kind, known);
  }
  Times times;
  for (auto _ : state) {
    const std::vector<TokenId> known = prompt();
    for (size_t m = 0; m < managers.size(); ++m) {
      times.measure(m, [&] { managers[m].serve(kind, known); });
    }
  }
  times.report(state);
}

// What a scheduler asks about a thousand prompts that wait, step after step; half of each is there.
void bench_waiting(benchmark::State& state) {
  constexpr uint32_t kWaiting = 1000;
  std::vector<Served> managers = all_managers(4096, 64);
  const std::vector<TokenId> stem = tokens(256, 0);
  std::vector<std::vector<TokenId>> known;
  for (uint32_t s = 0; s < kWaiting; ++s) {
    known.push_back(stem);
    const std::vector<TokenId> tail = tokens(256, s + 1);
    known.back().insert(known.back().end(), tail.begin(), tail.end());
  }
  for (Served& kv : managers) {
    kv.serve(kWaiting, known[0]);
    for (uint32_t s = 0; s < kWaiting; ++s) kv.begin(s);
    for (uint32_t s = 0; s < kWaiting; ++s) kv.ready(s, known[s]);
  }
  Times times;
  for (auto _ : state) {
    for (size_t m = 0; m < managers.size(); ++m) {
      times.measure(m, [&] {
        for (uint32_t s = 0; s < kWaiting; ++s) managers[m].ready(s, known[s]);
      });
    }
  }
  times.report(state);
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon::bench;
  if (!start_machine(argc, argv)) return 1;
  const auto add = [](const std::string& name, int iterations, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)
        ->Iterations(iterations)
        ->Unit(benchmark::kMicrosecond);
  };
  for (const uint32_t sequences : {256u, 1024u}) {
    add("decode/" + std::to_string(sequences), 1600,
        [=](benchmark::State& state) { bench_decode(state, sequences); });
  }
  for (const uint32_t common : {0u, 256u, 496u}) {
    add("admission/common:" + std::to_string(common), 2000,
        [=](benchmark::State& state) { bench_admission(state, common); });
  }
  add("waiting/1000", 500, [](benchmark::State& state) { bench_waiting(state); });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
