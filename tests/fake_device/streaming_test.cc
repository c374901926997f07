// A manager that evicts: tokens are those of a model whose rows see the sinks and a window that
// follows from their position, whatever cuts the steps; and a sequence's memory does not grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "tests/fake_device/rig/rig.h"
#include "tests/fake_device/rig/toy_drafters.h"

namespace tenon {
namespace {

struct Strategy {
  const char* scheduler;
  const char* options;
  uint32_t block_tokens;
};
std::ostream& operator<<(std::ostream& out, const Strategy& strategy) {
  return out << strategy.scheduler << " " << strategy.options << " " << strategy.block_tokens;
}
constexpr Strategy kStrategies[] = {
    {"static", "", 4},
    {"static", "max_sequences=3", 1},
    {"continuous", "", 4},
    {"continuous", "chunk_tokens=1", 4},
    {"continuous", "chunk_tokens=7", 1},
    {"continuous", "victim=least_cost policy=shortest_first", 8},
    {"chunked", "", 4},
    {"chunked", "step_tokens=9", 1},
    {"chunked", "step_tokens=24 max_partial_prompts=1", 8},
    {"fair", "step_tokens=12", 4},
};

// From shorter than the window to many times as long.
std::vector<Request> requests_of(const RigOptions& options) {
  std::vector<Request> requests;
  TestRandom random(3);
  for (uint32_t length : {1u, 27u, 28u, 43u, 120u, 64u, 5u, 90u}) {
    Request request;
    request.prompt = random.tokens(length, options.vocabulary);
    request.max_tokens = 20 + random.below(90);
    request.samples = requests.size() % 3 == 1 ? 2 : 1;
    request.sampling.temperature = requests.size() % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = 40 + requests.size();
    requests.push_back(request);
  }
  return requests;
}

EngineTotals expect_oracle(const RigOptions& options) {
  Rig rig(options);
  const std::vector<Request> requests = requests_of(options);
  for (const Request& request : requests) rig.submit(request);
  rig.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      const ResultSink::Sample& result = rig.result(i + 1, sample);
      const Expected expected =
          oracle(options.model(), requests[i], sample, options.context_tokens);
      EXPECT_EQ(result.message, "");
      EXPECT_EQ(result.ids(), expected.ids) << "request " << i << " sample " << sample;
      EXPECT_EQ(result.record.logits_digest, expected.digest);
    }
  }
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
  return rig.engine().totals();
}

class Streaming : public testing::TestWithParam<Strategy> {
 protected:
  static RigOptions options() {
    RigOptions options;
    options.scheduler = GetParam().scheduler;
    options.scheduler_options = GetParam().options;
    options.block_tokens = GetParam().block_tokens;
    options.stream(4, 16, 8);
    return options;
  }
  static RigOptions scarce() {
    RigOptions scarce = options();
    scarce.kv_tokens = 64;
    return scarce;
  }
};

TEST_P(Streaming, gives_the_tokens_of_its_mask) {
  expect_oracle(options());
}

TEST_P(Streaming, gives_the_same_tokens_when_memory_is_short) {
  EXPECT_GT(expect_oracle(scarce()).preemptions, 0u);
}

TEST_P(Streaming, gives_the_same_tokens_when_preempted_ones_are_swapped) {
  RigOptions swapping = scarce();
  swapping.swap_tokens = 160;
  swapping.scheduler_options +=
      swapping.scheduler_options.empty() ? "preempt=swap" : " preempt=swap";
  EXPECT_GT(expect_oracle(swapping).swapped_in_tokens, 0u);
}

TEST_P(Streaming, gives_the_same_tokens_with_drafts) {
  RigOptions drafting = scarce();
  ToyDrafter drafter(drafting.model(), 6, 4);
  drafting.drafter = &drafter;
  expect_oracle(drafting);
  EXPECT_GT(drafter.accepted(), 20u);
}

TEST_P(Streaming, gives_the_same_tokens_with_trees_of_drafts) {
  RigOptions drafting = options();
  TreeDrafter drafter(drafting.model(), 6);
  drafting.drafter = &drafter;
  drafting.draft_trees = true;
  expect_oracle(drafting);
  EXPECT_GT(drafter.accepted(), 0u);
}

TEST_P(Streaming, gives_the_same_tokens_beside_a_window_and_a_recurrence) {
  RigOptions hybrid = options();
  hybrid.second_window = 9;
  hybrid.recurrent = true;
  expect_oracle(hybrid);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Streaming, testing::ValuesIn(kStrategies));

TEST(StreamingMemory, does_not_grow_with_the_text) {
  RigOptions options;
  options.block_tokens = 4;
  options.context_tokens = 5000;
  options.stream(4, 16, 8);
  options.kv_tokens = 28;  // the sinks, the window and a stride
  Rig rig(options);
  const Request request = greedy_request({1, 2, 3}, 0);
  rig.submit(request);
  uint64_t most = 0;
  while (!rig.engine().idle()) {
    ASSERT_TRUE(rig.engine().step().ok());
    most = std::max(most, rig.usage().reserved_tokens);
  }
  EXPECT_EQ(most, 28u);
  EXPECT_EQ(rig.result(1).ids().size(), 4997u);
  const Expected expected = oracle(options.model(), request, 0, options.context_tokens);
  EXPECT_EQ(rig.result(1).record.logits_digest, expected.digest);
}

TEST(StreamingMemory, serves_prompts_longer_than_all_of_it) {
  RigOptions options;
  options.block_tokens = 4;
  options.stream(4, 16, 8);
  options.kv_tokens = 28;
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    options.scheduler = scheduler;
    expect_oracle(options);
  }
}

TEST(StreamingMemory, is_as_paged_while_nothing_is_evicted) {
  RigOptions options;
  options.block_tokens = 4;
  options.kv_tokens = 600;
  const auto digests = [](const RigOptions& of) {
    Rig rig(of);
    for (const Request& request : requests_of(of)) rig.submit(request);
    rig.run();
    std::vector<uint64_t> all;
    for (RequestId id = 1; id <= 8; ++id) all.push_back(rig.result(id).record.logits_digest);
    return all;
  };
  const std::vector<uint64_t> paged = digests(options);
  options.stream(4, 240, 8);
  EXPECT_EQ(digests(options), paged);
  options.stream(4, 16, 8);
  EXPECT_NE(digests(options), paged);
}

TEST(StreamingMemory, is_enough_for_beams_that_are_long) {
  RigOptions options;
  options.block_tokens = 4;
  options.stream(4, 16, 8);
  Request request = greedy_request(TestRandom(7).tokens(40, options.vocabulary), 150);
  request.beams = 3;
  const auto ids = [&](uint32_t kv_tokens) {
    options.kv_tokens = kv_tokens;
    Rig rig(options);
    rig.submit(request);
    rig.run();
    EXPECT_EQ(rig.result(1).message, "");
    return rig.result(1).ids();
  };
  EXPECT_EQ(ids(3 * 28), ids(4096));
}

}  // namespace
}  // namespace tenon
