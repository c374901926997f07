// Whatever the strategies, a request's tokens and the bits they were drawn from are the oracle's.
#include <gtest/gtest.h>

#include <sstream>
#include <tuple>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

struct Strategy {
  const char* scheduler;
  const char* scheduler_options;
  const char* kv_cache;
  uint32_t block_tokens;
};
std::ostream& operator<<(std::ostream& out, const Strategy& strategy) {
  out << strategy.scheduler;
  if (strategy.scheduler_options[0] != '\0') out << "[" << strategy.scheduler_options << "]";
  return out << " " << strategy.kv_cache << " " << strategy.block_tokens;
}

constexpr Strategy kStrategies[] = {
    {"static", "", "naive", 0},
    {"static", "", "paged", 1},
    {"static", "", "paged", 16},
    {"static", "", "paged", 64},
    {"static", "max_sequences=3", "paged", 16},
    {"continuous", "", "naive", 0},
    {"continuous", "", "paged", 1},
    {"continuous", "", "paged", 16},
    {"continuous", "", "paged", 64},
    {"continuous", "chunk_tokens=1", "paged", 16},
    {"continuous", "chunk_tokens=7", "paged", 1},
    {"continuous", "chunk_tokens=7", "paged", 16},
    {"continuous", "chunk_tokens=7", "naive", 0},
    {"continuous", "chunk_tokens=33", "paged", 64},
    {"continuous", "watermark=0.5", "paged", 16},
    {"continuous", "policy=shortest_first victim=least_cost waiting_served_ratio=2", "paged", 16},
    {"chunked", "", "paged", 16},
    {"chunked", "step_tokens=9", "paged", 1},
    {"chunked", "step_tokens=24 long_prompt_threshold=7 preempt=swap", "paged", 16},
    {"chunked", "step_tokens=64 max_partial_prompts=1 policy=priority", "paged", 16},
    {"chunked", "step_tokens=33", "naive", 0},
    {"chunked", "step_tokens=20 preempt=swap", "prefix", 8},
    {"continuous", "preempt=swap victim=least_cost", "radix", 16},
    {"fair", "step_tokens=24", "prefix", 16},
    {"fair", "", "paged", 16},
    {"fair", "step_tokens=12", "paged", 1},
    {"fair", "step_tokens=40", "naive", 0},
};

// Whatever looks at the tokens before, or changes from token to token.
void add_stages(SamplingParams& sampling, uint32_t variant) {
  if (variant % 5 == 1) sampling.repetition_penalty = 1.3f;
  if (variant % 5 == 3) sampling.presence_penalty = sampling.frequency_penalty = 0.4f;
  if (variant % 3 == 2) sampling.dry_multiplier = 0.8f;
  if (variant % 4 == 1) sampling.xtc_probability = 0.5f;
  if (variant == 3) sampling.dynamic_temperature_range = 0.5f;
  if (variant == 5 || variant == 9) {
    sampling.mirostat = variant == 5 ? 2 : 1;
    sampling.mirostat_tau = 3.0f;
    sampling.top_k = 0;
    sampling.xtc_probability = 0.0f;
  }
  if (variant == 7) sampling.watermark_delta = 2.0f;
}

// Prompts around block boundaries; greedy and sampled; one and several samples.
std::vector<Request> mixed_requests(const RigOptions& options) {
  std::vector<Request> requests;
  TestRandom random(11);
  for (uint32_t length : {1u, 15u, 16u, 17u, 31u, 64u, 90u, 5u, 48u, 2u, 63u}) {
    Request request;
    request.prompt = random.tokens(length, options.vocabulary);
    request.max_tokens = 1 + random.below(40);
    request.samples = requests.size() % 3 == 1 ? 1 + random.below(4) : 1;
    request.sampling.temperature = requests.size() % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.top_k = requests.size() % 4 == 1 ? 20 : 0;
    request.sampling.top_p = requests.size() % 4 == 3 ? 0.8f : 1.0f;
    request.sampling.seed = 100 + requests.size();
    add_stages(request.sampling, static_cast<uint32_t>(requests.size()));
    requests.push_back(request);
  }
  return requests;
}

void expect_oracle(const RigOptions& options) {
  Rig rig(options);
  const std::vector<Request> requests = mixed_requests(options);
  for (const Request& request : requests) rig.submit(request);
  rig.run();
  const ToyModel model{options.vocabulary, options.window_tokens};
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      const ResultSink::Sample& result = rig.result(i + 1, sample);
      const Expected expected =
          oracle(model, requests[i], sample, options.context_tokens, options.eos_tokens);
      ASSERT_TRUE(result.ended);
      EXPECT_EQ(result.message, "");
      EXPECT_EQ(result.ids(), expected.ids) << "request " << i << " sample " << sample;
      EXPECT_EQ(result.record.logits_digest, expected.digest);
    }
  }
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
}

class SameTokens : public testing::TestWithParam<Strategy> {
 protected:
  RigOptions options() const {
    RigOptions options;
    options.scheduler = GetParam().scheduler;
    options.scheduler_options = GetParam().scheduler_options;
    options.kv_cache = GetParam().kv_cache;
    options.block_tokens = GetParam().block_tokens;
    return options;
  }
};

TEST_P(SameTokens, with_room_for_everyone) {
  expect_oracle(options());
}

TEST_P(SameTokens, when_memory_is_short) {
  RigOptions scarce = options();
  scarce.context_tokens = 192;
  scarce.kv_tokens = 192 * 2;  // naive: two sequences; paged: preemption
  expect_oracle(scarce);
}

TEST_P(SameTokens, when_a_step_is_shorter_than_most_prompts) {
  RigOptions narrow = options();
  narrow.max_batch_tokens = 20;
  expect_oracle(narrow);
}

TEST_P(SameTokens, with_one_row_at_a_time) {
  RigOptions lonely = options();
  lonely.max_sequences = 1;
  expect_oracle(lonely);
}

TEST_P(SameTokens, with_a_sliding_window) {
  RigOptions sliding = options();
  sliding.window_tokens = 24;
  expect_oracle(sliding);
}

TEST_P(SameTokens, with_drafts_that_are_mostly_right) {
  RigOptions drafting = options();
  ToyDrafter drafter({drafting.vocabulary}, 4, 5);
  drafting.drafter = &drafter;
  expect_oracle(drafting);
  EXPECT_GT(drafter.accepted(), 20u);
  EXPECT_LT(drafter.accepted(), drafter.drafted());
  EXPECT_EQ(drafter.live(), 0);
}

TEST_P(SameTokens, with_drafts_when_memory_is_short) {
  RigOptions drafting = options();
  ToyDrafter drafter({drafting.vocabulary}, 9, 3);
  drafting.drafter = &drafter;
  drafting.context_tokens = 160;
  drafting.kv_tokens = 320;
  drafting.max_batch_tokens = 40;
  expect_oracle(drafting);
}

TEST_P(SameTokens, when_the_end_of_text_comes_first) {
  RigOptions ending = options();
  ending.eos_tokens = {3, 9, 20, 41};
  ToyDrafter drafter({ending.vocabulary}, 3, 0);
  ending.drafter = &drafter;
  expect_oracle(ending);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SameTokens, testing::ValuesIn(kStrategies));

}  // namespace
}  // namespace tenon
