// Heads that draft a block in one pass, in whole pipelines: whatever composes one, they change no
// token and no digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/pipeline/heads/head_pipelines.h"

namespace tenon {
namespace {

using testing::HasSubstr;

using test::kHeads;
using test::Outcome;
using test::Overrides;

class DFlashPipelines : public test::HeadPipelinesOn {
 protected:
  DFlashPipelines()
      : HeadPipelinesOn({"drafter.plugin=dflash", "drafter.model=" + kHeads + "dspark_llama_tied",
                         "drafter.options.adaptive=false"}) {}
};

INSTANTIATE_TEST_SUITE_P(Models, DFlashPipelines, testing::Values("llama_tied"));

TEST_P(DFlashPipelines, every_scheduler_gives_the_same_tokens_with_every_manager) {
  expect_the_same_with_every_scheduler_and_manager();
}

TEST_P(DFlashPipelines, prompts_that_begin_alike_change_no_token) {
  expect_the_same_of_prompts_that_begin_alike();
}

// What a block proposes follows from a history alone: not from who else is there, nor from how
// blocks of K/V end, nor from how much of the block was asked for.
TEST_P(DFlashPipelines, drafts_are_the_same_alone_in_batches_and_in_chunks) {
  const Outcome together = run(with_head({"kv_cache.plugin=paged"}), requests());
  ASSERT_GT(together.totals.drafts.accepted, 0u);
  for (const char* way : {"limits.max_sequences=1", "scheduler.options.chunk_tokens=3",
                          "kv_cache.block_tokens=1", "kv_cache.block_tokens=4"}) {
    SCOPED_TRACE(way);
    const Outcome other = run(with_head({"kv_cache.plugin=paged", way}), requests());
    EXPECT_EQ(other.samples, together.samples);
    EXPECT_EQ(other.totals.drafts.tokens, together.totals.drafts.tokens);
    EXPECT_EQ(other.totals.drafts.accepted_at, together.totals.drafts.accepted_at);
  }
}

TEST_P(DFlashPipelines, fewer_tokens_of_a_block_are_the_same_ones) {
  const Outcome one = run(with_head({"kv_cache.plugin=paged", "drafter.options.max_draft_tokens=1",
                                     "kv_cache.block_tokens=1"}),
                          requests());
  const Outcome whole = run(with_head({"kv_cache.plugin=paged"}), requests());
  EXPECT_EQ(one.samples, whole.samples);
  EXPECT_GT(one.totals.drafts.accepted, 0u);
  EXPECT_EQ(one.totals.drafts.accepted, one.totals.drafts.accepted_at.at(0));
}

TEST_P(DFlashPipelines, blocks_end_where_the_head_expects_little) {
  const Outcome all = run(with_head({"kv_cache.plugin=paged"}), requests());
  const Outcome sure =
      run(with_head({"kv_cache.plugin=paged", "drafter.options.min_confidence=0.3"}), requests());
  EXPECT_EQ(sure.samples, all.samples);
  EXPECT_GT(sure.totals.drafts.tokens, 0u);
  EXPECT_LT(sure.totals.drafts.tokens, all.totals.drafts.tokens);
}

TEST_P(DFlashPipelines, the_oracle_drafts_the_same) {
  const Outcome alone = run({"executor.plugin=ref", "limits.max_sequences=2"}, requests());
  const Outcome outcome =
      run(with_head({"executor.plugin=ref", "limits.max_sequences=2"}), requests());
  EXPECT_EQ(outcome.samples, alone.samples);
  EXPECT_GT(outcome.totals.drafts.accepted, 0u);
}

TEST_P(DFlashPipelines, rejection_keeps_drafts_too) {
  const Outcome outcome =
      run(with_head({"kv_cache.plugin=paged", "drafter.verify=rejection"}), requests());
  EXPECT_GT(outcome.totals.drafts.accepted, 0u);
}

TEST_P(DFlashPipelines, heads_of_other_kinds_and_other_targets_are_refused) {
  EXPECT_THAT(refusal({"drafter.plugin=eagle3", "drafter.model=" + kHeads + "dspark_llama_tied"}),
              HasSubstr("the head is of the kind \"dflash\"; set drafter.plugin = \"dflash\""));
  EXPECT_THAT(refusal({"drafter.plugin=dflash", "drafter.model=" + kHeads + "llama_tied",
                       "drafter.options.max_draft_tokens=4"}),
              HasSubstr("the head is of the kind \"eagle3\"; set drafter.plugin = \"eagle3\""));
  EXPECT_THAT(refusal({"drafter.plugin=dflash", "drafter.model=" + kHeads + "dspark"}),
              HasSubstr("the head has a vocabulary of 40 tokens, but the target has 99"));
  EXPECT_THAT(refusal({"drafter.plugin=dflash"}), HasSubstr("runs a second model, but none is"));
}

}  // namespace
}  // namespace tenon
