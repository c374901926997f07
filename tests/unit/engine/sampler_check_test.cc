#include "core/engine/requests/sampler_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/engine/requests/request_check.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// A sampler that cuts by top_k alone and reports two alternatives.
std::string faults(const Request& request) {
  static const std::vector<std::string> kStages = {"temperature", "top_k"};
  RequestLimits limits;
  limits.sampler_name = "plain";
  limits.sampler_stages = kStages;
  limits.sampler_logprobs = 2;
  std::vector<std::string> texts;
  for (const RequestFault& fault : sampler_faults(request, limits)) texts.push_back(fault.text);
  return join(texts, "\n");
}

TEST(SamplerCheck, lets_pass_what_a_sampler_says_it_honours) {
  Request request;
  request.sampling.temperature = 0.5f;
  request.sampling.top_k = 40;
  request.sampling.logprobs = 2;
  EXPECT_EQ(faults(request), "");
}

TEST(SamplerCheck, refuses_each_thing_that_it_would_leave_out) {
  Request request;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.min_p = 0.1f;
  request.lists.logit_bias = {{1, 2.0f}};
  request.lists.bad_words = {{1}};
  request.lists.order = {SamplingStage::dry};
  const std::string text = faults(request);
  for (const char* asked : {"repetition_penalty (penalties ", "min_p (min_p ", "logit_bias (bias ",
                            "bad_words (bans ", "order (dry "}) {
    EXPECT_THAT(text, HasSubstr(std::string("sampler 'plain' does not say that it honours ") +
                                asked + "in its fact sampler.stages: temperature top_k)"));
  }
}

TEST(SamplerCheck, refuses_more_alternatives_than_it_reports) {
  Request request;
  request.sampling.logprobs = 3;
  EXPECT_THAT(faults(request), HasSubstr("of 2 tokens at a position at most"));
}

TEST(SamplerCheck, knows_what_needs_log_probabilities_without_asking_for_them) {
  RequestLimits limits;
  limits.sampler_logprobs = 0;
  Request beams, best, prompt, none;
  beams.beams = 2;
  best.best_of = 2;
  prompt.prompt_logprobs = true;
  for (const Request* request : {&beams, &best, &prompt}) {
    EXPECT_EQ(sampler_faults(*request, limits).size(), 1u);
  }
  EXPECT_TRUE(sampler_faults(none, limits).empty());
}

}  // namespace
}  // namespace tenon
