#include "core/engine/answers/diffusion/diffusion_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr TokenId kMask = 98;

RequestLimits limits_of(TokenId mask) {
  RequestLimits limits;
  limits.scheduler.context_tokens = 128;
  limits.scheduler.max_sequences = 8;
  limits.scheduler.max_batch_tokens = 64;
  limits.vocabulary = 99;
  limits.sequence_tokens = 101;
  limits.kv_tokens = 100;
  limits.mask_token = mask;
  return limits;
}

Request asked(uint32_t max_tokens, uint32_t block_length = 0, uint32_t steps = 0) {
  Request request;
  request.prompt = {1, 2, 3, 4};
  request.max_tokens = max_tokens;
  request.block_length = block_length;
  request.steps = steps;
  return request;
}

std::string refusal(const Request& request, TokenId mask = kMask) {
  return std::string(check_request(request, limits_of(mask)).message());
}

TEST(DiffusionCheck, takes_what_fits_into_a_step_in_whole_blocks_and_steps) {
  EXPECT_EQ(refusal(asked(0)), "");
  EXPECT_EQ(refusal(asked(60)), "");
  EXPECT_EQ(refusal(asked(24, 8, 12)), "");
  EXPECT_EQ(answer_room(4, limits_of(kMask)), 60u);
}

TEST(DiffusionCheck, refuses_an_answer_that_no_step_has_room_for) {
  EXPECT_THAT(refusal(asked(61)),
              HasSubstr("prompt and answer take 65 tokens – a step has 64 at most"));
  Request long_one = asked(0);
  long_one.prompt.assign(64, 1);
  EXPECT_THAT(refusal(long_one), HasSubstr("the prompt has 64 tokens – a step has 64 at most"));
}

TEST(DiffusionCheck, refuses_blocks_and_steps_that_do_not_divide) {
  EXPECT_THAT(refusal(asked(20, 6)), HasSubstr("20 tokens, which are no whole blocks of 6"));
  EXPECT_THAT(refusal(asked(20, 40)), HasSubstr("20 tokens, which are no whole blocks of 40"));
  EXPECT_THAT(refusal(asked(20, 5, 6)),
              HasSubstr("steps is 6, which does not divide among 4 blocks"));
  EXPECT_THAT(refusal(asked(20, 5, 24)),
              HasSubstr("steps is 24, more than the 20 tokens of the answer"));
}

TEST(DiffusionCheck, refuses_what_belongs_to_answers_that_grow_token_by_token) {
  Request request = asked(8);
  request.pooling = Pooling::mean;
  request.beams = 2;
  request.best_of = 3;
  request.prompt_logprobs = true;
  const std::string text = refusal(request);
  for (const char* what : {"an embedding is asked for – the model", "beams is 2 – the model",
                           "best_of is 3 – the model", "prompt_logprobs is true – the model"}) {
    EXPECT_THAT(text, HasSubstr(what));
  }
  request = asked(8);
  request.samples = 2;
  EXPECT_THAT(refusal(request), HasSubstr("samples is 2 – a model that generates by diffusion"));
}

TEST(DiffusionCheck, refuses_what_looks_back_on_a_text) {
  Request request = asked(8);
  request.sampling.repetition_penalty = 1.5f;
  request.sampling.dry_multiplier = 0.5f;
  request.lists.bad_words = {{3, 4}};
  const std::string text = refusal(request);
  EXPECT_THAT(text, HasSubstr("repetition_penalty is 1.5 – it looks back on a text"));
  EXPECT_THAT(text, HasSubstr("dry_multiplier is 0.5 – it looks back on a text"));
  EXPECT_THAT(text, HasSubstr("bad_words are given – they look back on a text"));
}

TEST(DiffusionCheck, refuses_masks_in_a_prompt) {
  Request request = asked(8);
  request.prompt[2] = kMask;
  EXPECT_THAT(refusal(request), HasSubstr("prompt token 2 is the model's mask, 98"));
}

TEST(DiffusionCheck, needs_a_sampler_that_says_how_likely_its_tokens_are) {
  RequestLimits limits = limits_of(kMask);
  limits.sampler_logprobs = 0;
  limits.sampler_name = "plain";
  Request request = asked(8);
  EXPECT_THAT(std::string(check_request(request, limits).message()),
              HasSubstr("sampler 'plain' reports no log probabilities"));
  request.remasking = Remasking::random;
  EXPECT_TRUE(check_request(request, limits).ok());
}

TEST(DiffusionCheck, other_models_refuse_each_of_its_settings) {
  EXPECT_EQ(refusal(asked(8), kNoToken), "");
  EXPECT_THAT(refusal(asked(8, 4), kNoToken),
              HasSubstr("block_length is 4 – it belongs to diffusion models"));
  EXPECT_THAT(refusal(asked(8, 0, 4), kNoToken),
              HasSubstr("steps is 4 – it belongs to diffusion models"));
  Request request = asked(8);
  request.remasking = Remasking::low_confidence;
  EXPECT_THAT(refusal(request, kNoToken),
              HasSubstr("remasking is set – it belongs to diffusion models"));
}

}  // namespace
}  // namespace tenon
