// Trees of drafts from second models in whole pipelines: whatever composes one, they change no
// token and no digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/models/host_executors.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon {
namespace {

using testing::HasSubstr;

using test::kManagers;
using test::Outcome;
using test::Overrides;

constexpr const char *kWidths = "2,2,1", *kGrown = "grow";

class DraftTrees : public test::RecurrentPipelinesOn {
 protected:
  DraftTrees() : RecurrentPipelinesOn(test::host_executors()) { digests_ = true; }

  static Overrides with_head(const std::string& tree, Overrides more = {}) {
    Overrides all = {"drafter.plugin=eagle3",
                     "drafter.model=" + source_folder() + "/tests/golden/heads/llama_tied",
                     "drafter.options.norm_before_residual=no",
                     "drafter.options.adaptive=false",
                     "drafter.options.max_draft_tokens=7",
                     "drafter.options.tree=\"" + tree + "\""};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Overrides with_itself(const std::string& tree, Overrides more = {}) {
    Overrides all = {"drafter.plugin=draft_model", "drafter.model=" + golden_models() + GetParam(),
                     "drafter.options.adaptive=false", "drafter.options.max_draft_tokens=7",
                     "drafter.options.tree=\"" + tree + "\""};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, DraftTrees, testing::Values("llama_tied"));

TEST_P(DraftTrees, every_scheduler_gives_the_same_tokens_with_every_manager) {
  const Outcome all = expected();
  ASSERT_EQ(all.samples.size(), 8u);
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* manager : kManagers) {
      for (const char* tree : {kWidths, kGrown}) {
        // One of the managers is enough for the second shape.
        if (tree == kGrown && manager != kManagers[1]) continue;
        SCOPED_TRACE(std::string(tree) + " " + scheduler + " " + manager);
        const Outcome outcome = run(with_head(tree, {std::string("scheduler.plugin=") + scheduler,
                                                     std::string("kv_cache.plugin=") + manager}),
                                    requests());
        EXPECT_EQ(outcome.samples, all.samples);
        EXPECT_GT(outcome.totals.drafts.tokens, 100u);
        EXPECT_GT(outcome.totals.drafts.accepted, 0u);
      }
    }
  }
}

TEST_P(DraftTrees, every_type_of_kv_gives_the_tokens_that_it_gives_without_drafts) {
  for (const char* dtype : {"f32", "bf16", "f16", "i8", "i4"}) {
    SCOPED_TRACE(dtype);
    const std::string stored = std::string("kv_cache.dtype=") + dtype;
    EXPECT_EQ(run(with_head(kWidths, {stored}), requests()).samples,
              run({stored}, requests()).samples);
  }
}

// What is proposed follows from a history and the slots that were granted, so it does not matter
// who else is there. Four sequences have room for all their drafts.
TEST_P(DraftTrees, drafts_are_the_same_alone_in_batches_and_in_chunks) {
  for (const char* tree : {kWidths, kGrown}) {
    const Overrides four = {"kv_cache.plugin=paged", "limits.max_sequences=4"};
    const Outcome together = run(with_head(tree, four), requests());
    ASSERT_GT(together.totals.drafts.accepted, 0u);
    for (const char* way : {"limits.max_sequences=1", "scheduler.options.chunk_tokens=3",
                            "kv_cache.block_tokens=1", "engine.plan_ahead=1"}) {
      SCOPED_TRACE(std::string(tree) + " " + way);
      Overrides overrides = four;
      overrides.emplace_back(way);
      const Outcome other = run(with_head(tree, overrides), requests());
      EXPECT_EQ(other.samples, together.samples);
      EXPECT_EQ(other.totals.drafts.tokens, together.totals.drafts.tokens);
      EXPECT_EQ(other.totals.drafts.accepted_at, together.totals.drafts.accepted_at);
    }
  }
}

TEST_P(DraftTrees, the_oracle_drafts_the_same_as_the_fast_executor) {
  const Overrides ref = {"executor.plugin=ref", "kv_cache.dtype=f32", "limits.max_sequences=2"};
  const Outcome alone = run(ref, requests());
  const Outcome outcome = run(with_head(kWidths, ref), requests());
  EXPECT_EQ(outcome.samples, alone.samples);
  EXPECT_GT(outcome.totals.drafts.accepted, 0u);
}

// A tree of one token a level is a chain, and is kept as one is.
TEST_P(DraftTrees, of_width_one_are_chains) {
  Overrides chain = with_head("");
  chain.push_back("drafter.options.max_draft_tokens=3");
  const Outcome chains = run(chain, requests());
  const Outcome trees = run(with_head("1,1,1"), requests());
  EXPECT_EQ(trees.samples, chains.samples);
  EXPECT_EQ(trees.totals.drafts.tokens, chains.totals.drafts.tokens);
  EXPECT_EQ(trees.totals.drafts.accepted_at, chains.totals.drafts.accepted_at);
}

TEST_P(DraftTrees, a_second_token_at_each_level_is_kept_where_the_first_is_not) {
  Overrides chain = with_head("1,1");
  EXPECT_GT(run(with_head("3,3"), requests()).totals.drafts.accepted,
            run(chain, requests()).totals.drafts.accepted);
}

// The target itself drafts: the first token of each level is always right.
TEST_P(DraftTrees, a_model_that_is_the_target_is_always_right) {
  const Outcome all = expected();
  for (const char* tree : {kWidths, kGrown}) {
    SCOPED_TRACE(tree);
    const Outcome outcome = run(with_itself(tree, {"kv_cache.dtype=f32"}), requests());
    const Outcome alone = run({"kv_cache.dtype=f32"}, requests());
    EXPECT_EQ(outcome.samples, alone.samples);
    const std::vector<uint64_t>& at = outcome.totals.drafts.accepted_at;
    ASSERT_GE(at.size(), 2u);
    EXPECT_GT(at[1], at[0] / 2) << "paths go on";
  }
  EXPECT_EQ(run(with_itself(kWidths, {"kv_cache.plugin=prefix", "limits.max_sequences=3"}),
                with_a_common_beginning())
                .samples,
            run({}, with_a_common_beginning()).samples);
}

// By rejection tokens differ from those without drafts, but not from batch to batch.
TEST_P(DraftTrees, are_verified_by_rejection_alike_in_every_batch) {
  const Overrides how = {"drafter.verify=rejection", "kv_cache.plugin=paged",
                         "limits.max_sequences=4"};
  const Outcome together = run(with_head(kWidths, how), requests());
  EXPECT_GT(together.totals.drafts.accepted, 0u);
  Overrides one_by_one = how;
  one_by_one.push_back("limits.max_sequences=1");
  EXPECT_EQ(run(with_head(kWidths, one_by_one), requests()).samples, together.samples);
  // Greedy requests have one right token each.
  const Outcome all = expected();
  for (size_t i = 0; i < all.samples.size(); i += 2) {
    EXPECT_EQ(together.samples[i], all.samples[i]) << i;
  }
}

TEST_P(DraftTrees, what_cannot_be_is_refused_with_what_to_write) {
  EXPECT_THAT(refusal(with_head("2,x")),
              HasSubstr("drafter.options.tree is \"2,x\", where \"x\" is no width from 1 to 32; "
                        "write widths by level with commas, as \"2,2,1\", or \"grow\""));
  EXPECT_THAT(refusal(with_head("2,0")), HasSubstr("where \"0\" is no width"));
  EXPECT_THAT(refusal(with_head("2,")), HasSubstr("where \"\" is no width"));
  EXPECT_THAT(refusal(with_head("4,4,4")),
              HasSubstr("which are more than the 32 tokens that a sequence can be drafted at a "
                        "time; write smaller widths, or \"grow\""));
  EXPECT_THAT(refusal(with_head(kGrown, {"drafter.verify=rejection"})),
              HasSubstr("write widths by level, as \"2,2,1\", or set drafter.verify = \"exact\""));
}

TEST_P(DraftTrees, a_part_that_follows_chains_only_is_named) {
  EXPECT_THAT(refusal(with_head(kWidths, {"kv_cache.plugin=heavy_hitters"})),
              testing::AllOf(HasSubstr("kv.trees"), HasSubstr("drafter.options.tree")));
}

class TreesOfRecurrentTargets : public DraftTrees {};
INSTANTIATE_TEST_SUITE_P(Models, TreesOfRecurrentTargets, testing::Values("../mtp/qwen3_5"),
                         [](const auto& one) { return std::string(one.param + 7); });

TEST_P(TreesOfRecurrentTargets, are_refused_with_who_says_so) {
  EXPECT_THAT(refusal({"drafter.plugin=mtp", "drafter.options.tree=\"2,2\""}),
              testing::AllOf(HasSubstr("draft.shape"), HasSubstr("drafter.options.tree"),
                             HasSubstr("chain")));
}

}  // namespace
}  // namespace tenon
