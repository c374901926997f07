// Models with recurrent layers in whole pipelines: whatever composes one, however short its memory
// is, and from whichever state it starts, a request has the same tokens and the same digest of its
// logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/models/host_executors.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using test::kManagers;
using test::Outcome;
using test::Overrides;

class RecurrentPipelines : public test::RecurrentPipelinesOn {
 protected:
  RecurrentPipelines() : RecurrentPipelinesOn(test::host_executors()) {}
};

INSTANTIATE_TEST_SUITE_P(Models, RecurrentPipelines,
                         testing::Values("mamba", "mamba2_groups", "granite4"));

TEST_P(RecurrentPipelines, every_scheduler_gives_the_same_tokens_with_every_manager) {
  const Outcome all = expected();
  ASSERT_EQ(all.samples.size(), 8u);
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* manager : kManagers) {
      SCOPED_TRACE(std::string(scheduler) + " " + manager);
      const Outcome outcome = run(
          {std::string("scheduler.plugin=") + scheduler, std::string("kv_cache.plugin=") + manager},
          requests());
      EXPECT_EQ(outcome.samples, all.samples);
    }
  }
}

TEST_P(RecurrentPipelines, prompts_that_begin_alike_start_from_one_state_and_change_no_token) {
  const Outcome all =
      run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, with_a_common_beginning());
  ASSERT_EQ(all.samples.size(), 9u);
  EXPECT_EQ(all.samples[8], all.samples[2]);
  const Overrides ways[] = {{"scheduler.plugin=static"},
                            {"scheduler.plugin=continuous"},
                            {"scheduler.plugin=chunked", "scheduler.options.step_tokens=23"},
                            {"scheduler.plugin=fair"},
                            {"limits.max_sequences=1"},
                            {"engine.plan_ahead=1"},
                            {"drafter.plugin=ngram"}};
  for (const char* manager : {"prefix", "radix"}) {
    for (Overrides overrides : ways) {
      SCOPED_TRACE(overrides[0] + " " + manager);
      overrides.push_back(std::string("kv_cache.plugin=") + manager);
      overrides.emplace_back("kv_cache.block_tokens=8");
      const Outcome outcome = run(overrides, with_a_common_beginning());
      EXPECT_EQ(outcome.samples, all.samples);
      EXPECT_GE(outcome.totals.reused_tokens, 7u * 32) << "computed once, or twice";
    }
  }
}

// A conversation: every prompt is the one before with its answer, and a little more.
TEST_P(RecurrentPipelines, the_next_turn_starts_behind_the_last_answer) {
  for (const char* manager : {"naive", "prefix", "radix"}) {
    SCOPED_TRACE(manager);
    const auto turn = [&](const std::vector<TokenId>& prompt, const char* with) {
      Request request;
      request.prompt = prompt;
      request.max_tokens = 21;
      request.ignore_eos = true;
      request.sampling.temperature = 0.0f;
      std::vector<Request> both(2, request);
      both[1].prompt.resize(prompt.size() + 21 + 5, 9);
      const Outcome first = run({std::string("kv_cache.plugin=") + with}, {request});
      std::copy_n(first.samples.at(0).first.begin(), 21,
                  both[1].prompt.begin() + static_cast<ptrdiff_t>(prompt.size()));
      return run({std::string("kv_cache.plugin=") + with, "limits.max_sequences=1"}, both);
    };
    const std::vector<TokenId> prompt{5, 8, 13, 21, 34, 55, 89, 4};
    const Outcome outcome = turn(prompt, manager);
    EXPECT_EQ(outcome.samples, turn(prompt, "paged").samples);
    // 28 tokens have a state after them somewhere; blocks are of 16.
    EXPECT_EQ(outcome.totals.reused_tokens, std::string_view(manager) == "naive" ? 0u : 16u);
  }
}

// Greedy answers that are long enough to repeat themselves.
TEST_P(RecurrentPipelines, drafts_that_are_accepted_or_rejected_change_no_token) {
  const auto long_ones = [] {
    std::vector<Request> all = requests();
    for (Request& request : all) {
      request.max_tokens = 50;
      request.sampling.temperature = 0.0f;
    }
    return all;
  };
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, long_ones());
  for (const char* drafter : {"ngram", "suffix"}) {
    for (const char* manager : kManagers) {
      SCOPED_TRACE(std::string(drafter) + " " + manager);
      const Outcome outcome =
          run({std::string("drafter.plugin=") + drafter, std::string("kv_cache.plugin=") + manager},
              long_ones());
      EXPECT_EQ(outcome.samples, all.samples);
      EXPECT_GT(outcome.totals.drafts.tokens, 0u);
    }
  }
}

TEST_P(RecurrentPipelines, steps_planned_ahead_change_no_token) {
  EXPECT_EQ(run({"engine.plan_ahead=1"}, requests()).samples, expected().samples);
}

TEST_P(RecurrentPipelines, memory_that_is_short_puts_sequences_off_and_changes_no_token) {
  const Outcome all = expected();
  const std::string memory = memory_for(7, 300);
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* manager : {"paged", "prefix", "radix"}) {
      SCOPED_TRACE(std::string(scheduler) + " " + manager);
      const Outcome outcome =
          run({std::string("scheduler.plugin=") + scheduler,
               std::string("kv_cache.plugin=") + manager, memory, "kv_cache.block_tokens=4"},
              requests());
      EXPECT_EQ(outcome.samples, all.samples);
    }
  }
}

TEST_P(RecurrentPipelines, states_come_back_from_the_swap_pool_as_they_were) {
  const Outcome all = expected();
  for (const char* manager : {"paged", "prefix", "radix"}) {
    SCOPED_TRACE(manager);
    const Overrides overrides{memory_for(7, 300),
                              "kv_cache.block_tokens=4",
                              "kv_cache.swap_memory=1MiB",
                              "scheduler.plugin=continuous",
                              "scheduler.options.preempt=swap",
                              std::string("kv_cache.plugin=") + manager};
    const Outcome outcome = run(overrides, requests());
    EXPECT_EQ(outcome.samples, all.samples);
  }
}

TEST_P(RecurrentPipelines, samples_and_beams_fork_from_one_state) {
  const auto several = [] {
    std::vector<Request> all = requests();
    all.resize(3);
    all[1].samples = 3;
    all[2].sampling.temperature = 0.0f;
    all[2].sampling.seed = 0;
    all[2].beams = 3;
    all[2].samples = 2;
    return all;
  };
  const Outcome all = run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, several());
  ASSERT_EQ(all.samples.size(), 6u);
  for (const char* scheduler : {"continuous", "chunked"}) {
    for (const char* manager : kManagers) {
      SCOPED_TRACE(std::string(scheduler) + " " + manager);
      EXPECT_EQ(run({std::string("scheduler.plugin=") + scheduler,
                     std::string("kv_cache.plugin=") + manager},
                    several())
                    .samples,
                all.samples);
    }
  }
}

TEST_P(RecurrentPipelines, the_oracle_runs_them_without_kernels) {
  std::vector<Request> few = requests();
  few.resize(2);
  const Outcome one = run({"executor.plugin=ref", "kv_cache.plugin=naive"}, few);
  const Outcome other = run({"executor.plugin=ref", "drafter.plugin=ngram"}, few);
  EXPECT_EQ(one.samples, other.samples);
}

// Two slots a sequence: the state, and the one after the step.
TEST_P(RecurrentPipelines, memory_of_states_does_not_depend_on_the_context) {
  const auto slots = [&](const Overrides& overrides) {
    auto pipeline = build(overrides);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status().message();
    for (const KvGroupGeometry& group : (*pipeline)->group_geometry) {
      if (group.dtype == DType::u8) return group.blocks;
    }
    return 0u;
  };
  EXPECT_EQ(slots({"limits.max_sequences=5"}), 10u);
  EXPECT_EQ(slots({"limits.max_sequences=5", "limits.context_tokens=48"}), 10u);
  EXPECT_EQ(slots({"limits.max_sequences=5", "engine.plan_ahead=1"}), 15u);
  // Two more for prefixes, and as many that are cached; all of the states' share where it is given.
  const std::string prefix = "kv_cache.plugin=prefix";
  EXPECT_EQ(slots({"limits.max_sequences=5", prefix}), 30u);
  EXPECT_EQ(slots({"limits.max_sequences=5", prefix, "engine.plan_ahead=1"}), 35u);
  EXPECT_GT(slots({"limits.max_sequences=5", prefix, memory_for(200, 96)}), 90u);
  EXPECT_EQ(slots({"limits.max_sequences=5", memory_for(200, 96)}), 10u);
}

TEST_P(RecurrentPipelines, memory_for_less_than_one_state_is_refused) {
  EXPECT_THAT(refusal({"kv_cache.memory=100"}),
              AllOf(HasSubstr("of recurrent state (2 slots)"), HasSubstr("kv_cache.memory is")));
  EXPECT_THAT(refusal({"kv_cache.memory=100", "kv_cache.plugin=prefix"}),
              HasSubstr("of recurrent state (4 slots, of which kv_cache"));
}

}  // namespace
}  // namespace tenon
