#include "core/engine/answers/diffusion/canvas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::ElementsAre;

constexpr TokenId kMask = 9;

Request asked(uint32_t max_tokens, uint32_t block_length, uint32_t steps) {
  Request request;
  request.max_tokens = max_tokens;
  request.block_length = block_length;
  request.steps = steps;
  return request;
}

TEST(DiffusionPlan, takes_one_block_and_a_step_a_token_where_nobody_says_otherwise) {
  const DiffusionPlan plan = plan_diffusion(asked(20, 0, 0), 1000);
  EXPECT_EQ(plan.answer, 20u);
  EXPECT_EQ(plan.block_length, 20u);
  EXPECT_EQ(plan.steps, 20u);
  EXPECT_EQ(plan.remasking, Remasking::low_confidence);
}

TEST(DiffusionPlan, shares_the_steps_among_the_blocks) {
  EXPECT_EQ(plan_diffusion(asked(24, 6, 12), 1000).steps, 3u);
  EXPECT_EQ(plan_diffusion(asked(24, 6, 0), 1000).steps, 6u);
}

TEST(DiffusionPlan, answers_of_no_given_length_have_128_tokens_or_the_whole_blocks_that_fit) {
  EXPECT_EQ(plan_diffusion(asked(0, 0, 0), 1000).answer, 128u);
  EXPECT_EQ(plan_diffusion(asked(0, 0, 0), 50).answer, 50u);
  EXPECT_EQ(plan_diffusion(asked(0, 12, 0), 50).answer, 48u);
}

TEST(MostConfident, are_the_highest_and_of_equals_the_first_in_order) {
  const std::vector<double> confidence = {0.1, 0.7, 0.4, 0.7, 0.4};
  EXPECT_THAT(most_confident(confidence, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(most_confident(confidence, 9), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(most_confident(confidence, 0).empty());
}

TEST(Canvas, turns_equal_shares_of_a_block_in_each_step_the_first_ones_more) {
  Canvas canvas({.answer = 14, .block_length = 7, .steps = 3}, 0, kMask, 0);
  std::vector<uint32_t> counts;
  while (!canvas.done()) {
    counts.push_back(canvas.count());
    canvas.end_step();
  }
  EXPECT_THAT(counts, ElementsAre(3, 2, 2, 3, 2, 2));
}

TEST(Canvas, looks_at_masks_of_the_answer_in_front_of_the_end_of_the_block) {
  Canvas canvas({.answer = 4, .block_length = 2, .steps = 1}, 2, kMask, 0);
  const std::vector<TokenId> tokens = {1, 2, 3, kMask, kMask, kMask};
  const auto wanted = [&] {
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      if (canvas.wants(tokens, i)) all.push_back(i);
    }
    return all;
  };
  EXPECT_THAT(wanted(), ElementsAre(3));
  canvas.end_step();
  // A mask that stayed, because the model drew the mask itself, may still become a token.
  EXPECT_THAT(wanted(), ElementsAre(3, 4, 5));
}

TEST(Canvas, hands_out_tokens_up_to_the_first_mask_and_at_the_end_masks_too) {
  Canvas canvas({.answer = 3, .block_length = 3, .steps = 1}, 1, kMask, 0);
  const std::vector<TokenId> tokens = {1, 5, kMask, 6};
  EXPECT_TRUE(canvas.next_is_final(tokens));
  canvas.deliver();
  EXPECT_FALSE(canvas.next_is_final(tokens));
  canvas.end_step();
  EXPECT_TRUE(canvas.next_is_final(tokens));
  canvas.deliver();
  canvas.deliver();
  EXPECT_FALSE(canvas.next_is_final(tokens));
  EXPECT_EQ(canvas.delivered(), 3u);
}

// As tests/golden/make_diffusion_goldens.py computes them.
TEST(Canvas, chances_depend_on_seed_step_and_place_alone) {
  Canvas canvas({.answer = 4, .block_length = 4, .steps = 4}, 0, kMask, 5);
  const Canvas same({.answer = 8, .block_length = 2, .steps = 1}, 3, kMask, 5);
  const double first = canvas.chance(7);
  EXPECT_EQ(first, same.chance(7));
  EXPECT_NE(first, canvas.chance(8));
  EXPECT_GE(first, 0.0);
  EXPECT_LT(first, 1.0);
  canvas.end_step();
  EXPECT_NE(first, canvas.chance(7));
  EXPECT_NE(canvas.seed(), same.seed());
}

}  // namespace
}  // namespace tenon
