// EAGLE-3 heads in whole pipelines: whatever composes one, they change no token and no digest.
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

class Eagle3Pipelines : public test::HeadPipelinesOn {
 protected:
  Eagle3Pipelines()
      : HeadPipelinesOn({"drafter.plugin=eagle3", "drafter.model=" + kHeads + "llama_tied",
                         "drafter.options.norm_before_residual=no",
                         "drafter.options.adaptive=false"}) {}
};

INSTANTIATE_TEST_SUITE_P(Models, Eagle3Pipelines, testing::Values("llama_tied"));

TEST_P(Eagle3Pipelines, every_scheduler_gives_the_same_tokens_with_every_manager) {
  expect_the_same_with_every_scheduler_and_manager();
}

TEST_P(Eagle3Pipelines, prompts_that_begin_alike_change_no_token) {
  expect_the_same_of_prompts_that_begin_alike();
}

// What a head proposes follows from a history alone, so it does not matter who else is there.
TEST_P(Eagle3Pipelines, drafts_are_the_same_alone_in_batches_and_in_chunks) {
  const Outcome together = run(with_head({"kv_cache.plugin=paged"}), requests());
  ASSERT_GT(together.totals.drafts.accepted, 0u);
  for (const char* way :
       {"limits.max_sequences=1", "scheduler.options.chunk_tokens=3", "kv_cache.block_tokens=1"}) {
    SCOPED_TRACE(way);
    const Outcome other = run(with_head({"kv_cache.plugin=paged", way}), requests());
    EXPECT_EQ(other.samples, together.samples);
    EXPECT_EQ(other.totals.drafts.tokens, together.totals.drafts.tokens);
    EXPECT_EQ(other.totals.drafts.accepted_at, together.totals.drafts.accepted_at);
  }
}

TEST_P(Eagle3Pipelines, the_oracle_drafts_the_same) {
  const Outcome alone = run({"executor.plugin=ref", "limits.max_sequences=2"}, requests());
  const Outcome outcome =
      run(with_head({"executor.plugin=ref", "limits.max_sequences=2"}), requests());
  EXPECT_EQ(outcome.samples, alone.samples);
  EXPECT_GT(outcome.totals.drafts.accepted, 0u);
}

TEST_P(Eagle3Pipelines, what_a_head_does_not_say_is_asked_for) {
  EXPECT_THAT(refusal({"drafter.plugin=eagle3", "drafter.model=" + kHeads + "llama_tied"}),
              HasSubstr("does not say 'norm_before_residual', which programs take for different "
                        "things; set drafter.options.norm_before_residual"));
}

TEST_P(Eagle3Pipelines, a_head_of_another_target_is_refused) {
  EXPECT_THAT(
      refusal({"drafter.plugin=eagle3", "drafter.model=" + kHeads + "plain"}),
      HasSubstr("the head has a vocabulary of 40 tokens, but the target has 99; it was made "
                "for another target"));
}

TEST_P(Eagle3Pipelines, heads_and_whole_models_are_not_taken_for_each_other) {
  EXPECT_THAT(refusal({"drafter.plugin=eagle3", "drafter.model=" + golden_models() + "llama_tied"}),
              HasSubstr("there is no head to draft with; set drafter.model to the folder of an "
                        "EAGLE-3 head"));
  EXPECT_THAT(refusal({"drafter.plugin=draft_model", "drafter.model=" + kHeads + "llama_tied"}),
              HasSubstr("is a head, which drafts from the model's own states, but drafter "
                        "\"draft_model\" runs whole models; set drafter.plugin = \"eagle3\""));
}

}  // namespace
}  // namespace tenon
