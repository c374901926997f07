// Random traffic with cancellations and little memory: thousands of steps, invariants at each.
#include <gtest/gtest.h>

#include <map>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

struct Traffic {
  const char* name;
  const char* scheduler;
  const char* scheduler_options;
  const char* kv_cache;
  uint32_t block_tokens;
  uint32_t kv_tokens;
  uint32_t max_sequences;
  uint32_t max_batch_tokens;
  uint32_t window_tokens;
  uint32_t drafts;
};

constexpr Traffic kTraffic[] = {
    {"roomy", "continuous", "", "paged", 16, 4096, 8, 256, 0, 0},
    {"scarce", "continuous", "", "paged", 4, 260, 12, 128, 0, 0},
    {"scarce_single", "continuous", "", "paged", 1, 200, 12, 128, 0, 3},
    {"scarce_chunks", "continuous", "chunk_tokens=5", "paged", 8, 256, 10, 24, 0, 0},
    {"scarce_static", "static", "", "paged", 8, 256, 6, 100, 0, 2},
    {"naive_static", "static", "", "naive", 0, 400, 6, 256, 0, 0},
    {"naive_drafts", "continuous", "", "naive", 0, 600, 6, 64, 0, 4},
    {"scarce_chunked", "chunked", "step_tokens=16", "paged", 4, 260, 12, 128, 0, 3},
    {"scarce_least_cost", "chunked", "victim=least_cost", "paged", 8, 264, 12, 64, 0, 0},
    {"scarce_fair", "fair", "step_tokens=20", "paged", 4, 260, 12, 128, 0, 2},
    {"scarce_priority", "continuous", "policy=priority preempt=swap", "paged", 4, 260, 12, 128, 0,
     0},
    {"naive_fair", "fair", "", "naive", 0, 600, 6, 64, 0, 0},
    {"window", "continuous", "", "paged", 4, 320, 8, 96, 13, 2},
};

class RandomTraffic : public testing::TestWithParam<std::tuple<Traffic, uint64_t>> {};

TEST_P(RandomTraffic, keeps_every_invariant_and_every_token) {
  const auto& [traffic, seed] = GetParam();
  SCOPED_TRACE(std::string(traffic.name) + " seed " + std::to_string(seed));
  RigOptions options;
  options.scheduler = traffic.scheduler;
  options.scheduler_options = traffic.scheduler_options;
  options.kv_cache = traffic.kv_cache;
  options.block_tokens = traffic.block_tokens;
  options.kv_tokens = traffic.kv_tokens;
  options.max_sequences = traffic.max_sequences;
  options.max_batch_tokens = traffic.max_batch_tokens;
  options.window_tokens = traffic.window_tokens;
  options.context_tokens = 120;
  options.eos_tokens = {2, 3};
  ToyDrafter drafter({options.vocabulary, options.window_tokens}, traffic.drafts, 4);
  if (traffic.drafts > 0) options.drafter = &drafter;
  Rig rig(options);
  TestRandom random(seed);
  std::vector<Request> requests;
  std::map<RequestId, bool> cancelled;
  int steps = 0;
  const auto step = [&] {
    ++steps;
    const Status status = rig.engine().step();
    EXPECT_TRUE(status.ok()) << status.message();
    const KvUsage usage = rig.usage();
    // Where a step is in flight, what it may still read is neither.
    const bool ahead = options.engine.plan_ahead;
    EXPECT_LE(usage.reserved_tokens + usage.free_tokens, usage.total_tokens);
    if (!ahead) {
      EXPECT_EQ(usage.reserved_tokens + usage.free_tokens, usage.total_tokens);
    }
    EXPECT_LE(usage.used_tokens, usage.reserved_tokens);
    return status.ok();
  };
  while (steps < 600) {
    if (random.below(4) == 0 && requests.size() < 150) {
      Request request;
      request.prompt = random.tokens(1 + random.below(80), options.vocabulary);
      request.max_tokens = 1 + random.below(39);
      request.priority = static_cast<int32_t>(random.below(3));
      request.tenant = random.below(3);
      request.samples = random.below(5) == 0 ? 1 + random.below(3) : 1;
      request.sampling.temperature = random.below(2) == 0 ? 0.0f : 1.0f;
      request.sampling.seed = seed + requests.size();
      requests.push_back(request);
      rig.submit(request);
    }
    if (random.below(25) == 0 && !requests.empty()) {
      const RequestId id = 1 + random.below(static_cast<uint32_t>(requests.size()));
      cancelled[id] = true;
      rig.engine().cancel(id);
    }
    if (!step()) return;
  }
  rig.run(20000);
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
  EXPECT_EQ(rig.engine().totals().forward_faults, 0u) << rig.engine().last_fault();
  EXPECT_EQ(drafter.live(), 0);
  size_t complete = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      const ResultSink::Sample& result = rig.result(i + 1, sample);
      ASSERT_TRUE(result.ended) << "request " << i;
      if (result.reason == FinishReason::cancelled) {
        EXPECT_TRUE(cancelled[i + 1]);
        continue;
      }
      const Expected expected = oracle({options.vocabulary, options.window_tokens}, requests[i],
                                       sample, options.context_tokens, options.eos_tokens);
      EXPECT_EQ(result.ids(), expected.ids) << "request " << i << " sample " << sample;
      EXPECT_EQ(result.record.logits_digest, expected.digest);
      ++complete;
    }
  }
  EXPECT_GT(complete, 60u);
  if (std::string_view(traffic.name).starts_with("scarce")) {
    EXPECT_GT(rig.engine().totals().preemptions, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTraffic,
                         testing::Combine(testing::ValuesIn(kTraffic), testing::Values(1, 2, 3)),
                         [](const auto& made) {
                           return std::string(std::get<0>(made.param).name) + "_" +
                                  std::to_string(std::get<1>(made.param));
                         });

}  // namespace
}  // namespace tenon
