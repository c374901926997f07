// What a pipeline may be made of beyond one group and chains of drafts: several KV groups, windows,
// recurrent state, trees of drafts, drafters that see hidden states. Whatever it is, a request's
// tokens and the bits they were drawn from are the oracle's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/fake_device/rig/rig.h"
#include "tests/fake_device/rig/toy_drafters.h"

namespace tenon {
namespace {

struct Pair {
  const char* scheduler;
  const char* scheduler_options;
  const char* kv_cache;
  uint32_t block_tokens;
};
std::ostream& operator<<(std::ostream& out, const Pair& pair) {
  return out << pair.scheduler << " " << pair.scheduler_options << " " << pair.kv_cache << " "
             << pair.block_tokens;
}
constexpr Pair kPairs[] = {
    {"static", "", "naive", 0},
    {"static", "", "paged", 16},
    {"static", "", "prefix", 8},
    {"static", "", "radix", 16},
    {"continuous", "", "naive", 0},
    {"continuous", "chunk_tokens=7", "paged", 1},
    {"continuous", "preempt=swap", "prefix", 16},
    {"continuous", "", "radix", 4},
    {"chunked", "step_tokens=33", "naive", 0},
    {"chunked", "step_tokens=24 preempt=swap", "paged", 16},
    {"chunked", "step_tokens=20", "prefix", 16},
    {"chunked", "", "radix", 16},
    {"fair", "step_tokens=40", "naive", 0},
    {"fair", "step_tokens=24", "paged", 4},
    {"fair", "", "prefix", 16},
    {"fair", "", "radix", 16},
};

std::vector<Request> mixed_requests(uint32_t vocabulary) {
  std::vector<Request> requests;
  TestRandom random(17);
  for (uint32_t length : {1u, 40u, 16u, 17u, 64u, 5u, 33u}) {
    Request request;
    request.prompt = random.tokens(length, vocabulary);
    request.max_tokens = 10 + random.below(30);
    request.samples = requests.size() % 3 == 1 ? 3 : 1;
    request.sampling.temperature = requests.size() % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.repetition_penalty = requests.size() == 4 ? 1.3f : 1.0f;
    request.sampling.seed = 70 + requests.size();
    request.min_tokens = requests.size() == 2 ? 6 : 0;
    requests.push_back(request);
  }
  return requests;
}

void expect_oracle(Rig& rig, const RigOptions& options, const std::vector<Request>& requests) {
  for (const Request& request : requests) rig.submit(request);
  rig.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t sample = 0; sample < requests[i].samples; ++sample) {
      const Expected expected =
          oracle(options.model(), requests[i], sample, options.context_tokens, options.eos_tokens);
      const ResultSink::Sample& result = rig.result(i + 1, sample);
      EXPECT_EQ(result.message, "");
      EXPECT_EQ(result.ids(), expected.ids) << "request " << i << " sample " << sample;
      EXPECT_EQ(result.record.logits_digest, expected.digest);
    }
  }
  EXPECT_EQ(rig.engine().last_fault(), "");
}
void expect_oracle(Rig& rig, const RigOptions& options) {
  expect_oracle(rig, options, mixed_requests(options.vocabulary));
}

class NewPaths : public testing::TestWithParam<Pair> {
 protected:
  static RigOptions options() {
    RigOptions options;
    options.scheduler = GetParam().scheduler;
    options.scheduler_options = GetParam().scheduler_options;
    options.kv_cache = GetParam().kv_cache;
    options.block_tokens = GetParam().block_tokens;
    if (options.block_tokens == 0) options.kv_tokens = 8 * options.context_tokens;
    return options;
  }
  static bool finds_prefixes() {
    const std::string_view manager = GetParam().kv_cache;
    return manager == "prefix" || manager == "radix";
  }
  // Enough for two or three sequences, and a pool for some more.
  static RigOptions scarce() {
    RigOptions scarce = options();
    scarce.context_tokens = 128;
    scarce.kv_tokens = scarce.block_tokens == 0 ? 3 * 128 : 288;
    scarce.swap_tokens = 128;
    return scarce;
  }
};

TEST_P(NewPaths, two_groups_one_of_them_windowed) {
  for (RigOptions options : {options(), scarce()}) {
    options.second_window = 9;
    Rig rig(options);
    expect_oracle(rig, options);
  }
}

TEST_P(NewPaths, trees_of_drafts) {
  for (RigOptions options : {options(), scarce()}) {
    TreeDrafter drafter(options.model(), 9);
    options.drafter = &drafter;
    options.draft_trees = true;
    Rig rig(options);
    expect_oracle(rig, options);
    EXPECT_GT(drafter.accepted(), 0u);
    EXPECT_GT(rig.device().tree_steps(), 0u);
    EXPECT_GT(rig.device().moved_tokens(), 0u) << "a path that is not leading must be moved";
  }
}

TEST_P(NewPaths, trees_of_drafts_over_two_groups) {
  RigOptions options = NewPaths::options();
  options.window_tokens = 12;
  options.second_window = 0;
  TreeDrafter drafter(options.model(), 6);
  options.drafter = &drafter;
  options.draft_trees = true;
  Rig rig(options);
  expect_oracle(rig, options);
  EXPECT_GT(drafter.accepted(), 0u);
}

TEST_P(NewPaths, hidden_states_of_every_token_that_is_kept) {
  if (finds_prefixes()) GTEST_SKIP() << "what is found is not computed, and so not seen";
  for (const bool trees : {false, true}) {
    for (const bool drawn_only : {false, true}) {
      RigOptions options = NewPaths::options();
      HiddenDrafter drafter(options.model(), drawn_only);
      options.drafter = &drafter;
      options.draft_trees = trees;
      Rig rig(options);
      expect_oracle(rig, options);
      EXPECT_EQ(drafter.complaint(), "");
      EXPECT_GT(drafter.accepted(), 0u);
      EXPECT_GT(drafter.compared(), 100u);
    }
  }
}

TEST_P(NewPaths, hidden_states_of_prompts_that_a_drafter_wants_to_see) {
  if (finds_prefixes()) GTEST_SKIP() << "what is found is not computed, and so not seen";
  RigOptions options = NewPaths::options();
  HiddenDrafter drafter(options.model(), false);
  options.drafter = &drafter;
  options.prompt_states = drafter.see_every_other_prompt();
  Rig rig(options);
  expect_oracle(rig, options);
  EXPECT_EQ(drafter.complaint(), "");
  EXPECT_GT(drafter.accepted(), 0u);
  EXPECT_GT(drafter.compared(), 100u);
  EXPECT_GT(drafter.unseen(), 50u);
}

TEST_P(NewPaths, a_recurrent_group_beside_attention) {
  for (RigOptions options : {options(), scarce()}) {
    options.recurrent = true;
    options.second_window = 9;
    Rig rig(options);
    expect_oracle(rig, options);
  }
}

TEST_P(NewPaths, states_that_are_kept_behind_a_common_beginning) {
  for (RigOptions options : {options(), scarce()}) {
    options.recurrent = true;
    options.second_window = 9;
    std::vector<Request> requests = mixed_requests(options.vocabulary);
    const std::vector<TokenId> stem = TestRandom(5).tokens(37, options.vocabulary);
    for (Request& request : requests) {
      request.prompt.resize(std::min<size_t>(request.prompt.size(), 40));
      request.prompt.insert(request.prompt.begin(), stem.begin(), stem.end());
    }
    Rig rig(options);
    expect_oracle(rig, options, requests);
    if (finds_prefixes()) {
      EXPECT_GT(rig.engine().totals().reused_tokens, 100u);
    }
  }
}

TEST_P(NewPaths, a_recurrent_group_with_drafts_that_are_rolled_back) {
  RigOptions options = NewPaths::options();
  options.recurrent = true;
  ToyDrafter drafter(options.model(), 4, 3);
  options.drafter = &drafter;
  Rig rig(options);
  expect_oracle(rig, options);
  EXPECT_GT(drafter.accepted(), 0u);
  EXPECT_LT(drafter.accepted(), drafter.drafted());
}

INSTANTIATE_TEST_SUITE_P(Pairs, NewPaths, testing::ValuesIn(kPairs));

}  // namespace
}  // namespace tenon
