// What a caller sees: refusals, ends, text, cancellation, several samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Tokens come from `script`; texts are letters: 0 = a, 1 = b, …
RigOptions scripted(std::string script) {
  RigOptions options;
  options.sampler = "replay";
  options.sampler_options = "tokens=" + std::move(script);
  options.text = true;
  return options;
}

std::string refusal(const RigOptions& options, Request request) {
  Rig rig(options);
  Result<RequestId> id = rig.engine().submit(std::move(request));
  EXPECT_FALSE(id.ok());
  EXPECT_TRUE(rig.engine().idle());
  return id.ok() ? "" : std::string(id.status().message());
}

TEST(Submit, refuses_an_empty_prompt) {
  EXPECT_EQ(refusal({}, greedy_request({}, 4)),
            "the prompt has no tokens – at least one is needed – give a text, or the model's "
            "beginning-of-text token");
}

TEST(Submit, refuses_a_prompt_that_leaves_no_room_for_an_answer) {
  EXPECT_EQ(refusal({}, greedy_request(std::vector<TokenId>(256, 1), 4)),
            "the prompt has 256 tokens – the context has 256 and one must be left for the answer – "
            "shorten the prompt or raise limits.context_tokens");
}

TEST(Submit, refuses_token_ids_outside_the_vocabulary) {
  EXPECT_EQ(refusal({}, greedy_request({1, 2, 61}, 4)),
            "prompt token 2 has id 61 – the vocabulary has ids 0 to 60 – encode the text with this "
            "model's own tokenizer");
  EXPECT_THAT(refusal({}, greedy_request({-1}, 4)), HasSubstr("prompt token 0 has id -1"));
}

TEST(Submit, refuses_what_could_never_fit_into_the_kv_cache) {
  RigOptions options;
  options.kv_tokens = 32;
  EXPECT_EQ(refusal(options, greedy_request(std::vector<TokenId>(20, 1), 14)),
            "prompt and answer take 34 tokens – the KV cache has room for 33 of one sequence – "
            "lower max_tokens or raise kv_cache.memory");
}

TEST(Submit, refuses_sampling_parameters_without_meaning) {
  Request request = greedy_request({1}, 4);
  request.sampling.temperature = -1.0f;
  EXPECT_THAT(refusal({}, request), HasSubstr("temperature is -1.0"));
  request.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal({}, request), HasSubstr("temperature is "));
  request.sampling = {};
  request.sampling.top_p = 0.0f;
  EXPECT_THAT(refusal({}, request), HasSubstr("top_p is 0.0"));
  request.sampling = {};
  request.sampling.logprobs = 4000000000u;
  EXPECT_THAT(refusal({}, request), HasSubstr("logprobs is 4000000000"));
  request.sampling = {};
  request.samples = 0;
  EXPECT_THAT(refusal({}, request), HasSubstr("samples is 0 –"));
  request.samples = 4000000000u;
  EXPECT_THAT(refusal({}, request), HasSubstr("samples is 4000000000 –"));
}

TEST(Submit, refuses_more_than_the_inbox_holds) {
  RigOptions options;
  options.engine.inbox_requests = 2;
  Rig rig(options);
  rig.submit(greedy_request({1}, 1));
  rig.submit(greedy_request({1}, 1));
  Result<RequestId> third = rig.engine().submit(greedy_request({1}, 1));
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.status().message(),
            "the inbox holds 2 requests that were not admitted yet, its limit – submit again "
            "later");
  rig.run();
}

TEST(Submit, works_from_several_threads) {
  Rig rig({});
  std::vector<std::shared_ptr<ResultSink>> sinks;
  for (int i = 0; i < 40; ++i) sinks.push_back(std::make_shared<ResultSink>());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        Request request = greedy_request({t + 1, i + 1}, 5);
        request.sink = sinks[static_cast<size_t>(t * 10 + i)];
        EXPECT_TRUE(rig.engine().submit(std::move(request)).ok());
      }
    });
  }
  while (rig.engine().totals().samples_ended < 40) ASSERT_TRUE(rig.engine().step().ok());
  for (std::thread& thread : threads) thread.join();
  for (const auto& sink : sinks) EXPECT_EQ(sink->samples().at(0).tokens.size(), 5u);
}

TEST(Ends, with_length_at_max_tokens) {
  Rig rig(scripted("1 2 3 4 5"));
  const RequestId id = rig.submit(greedy_request({7}, 3));
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::length);
  EXPECT_EQ(rig.result(id).text, "bcd");
}

TEST(Ends, with_length_where_the_context_is_full) {
  RigOptions options = scripted("1");
  options.context_tokens = 32;
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request(std::vector<TokenId>(30, 1), 0));
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::length);
  EXPECT_EQ(rig.result(id).tokens.size(), 2u);
}

TEST(Ends, at_end_of_text_without_its_text) {
  RigOptions options = scripted("1 2 9 4");
  options.eos_tokens = {9};
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request({7}, 10));
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::eos);
  EXPECT_THAT(rig.result(id).ids(), ElementsAre(1, 2, 9));
  EXPECT_EQ(rig.result(id).text, "bc");
}

TEST(Ends, not_at_end_of_text_that_is_to_be_ignored) {
  RigOptions options = scripted("1 2 9 4");
  options.eos_tokens = {9};
  Rig rig(options);
  Request request = greedy_request({7}, 6);
  request.ignore_eos = true;
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::length);
  EXPECT_THAT(rig.result(id).ids(), ElementsAre(1, 2, 9, 4, 1, 2));
}

TEST(Ends, at_a_stop_token) {
  Rig rig(scripted("1 2 5 4"));
  Request request = greedy_request({7}, 10);
  request.stop_tokens = {42, 5};
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::stop);
  EXPECT_THAT(rig.result(id).ids(), ElementsAre(1, 2, 5));
  EXPECT_EQ(rig.result(id).text, "bc");
}

TEST(Ends, before_a_stop_string_that_spans_tokens) {
  Rig rig(scripted("0 1 2 3 4 5 6"));
  Request request = greedy_request({7}, 10);
  request.stop = {"xyz", "def"};
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::stop);
  EXPECT_EQ(rig.result(id).text, "abc");
  EXPECT_EQ(rig.result(id).tokens.size(), 6u);
}

TEST(Ends, at_a_stop_inside_a_bundle_of_accepted_drafts) {
  // The replayed sampler accepts the drafts that equal its recording.
  class Parrot final : public Drafter {
   public:
    Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
    Status begin(SeqId, SeqId) noexcept override { return {}; }
    Status end(SeqId) noexcept override { return {}; }
    Status offer(std::span<const DraftRequest> requests,
                 std::span<uint32_t> offered) noexcept override {
      for (size_t i = 0; i < requests.size(); ++i) {
        offered[i] = std::min(4u, requests[i].max_tokens);
      }
      return {};
    }
    Status draft(std::span<const DraftRequest> requests,
                 std::span<DraftOut> drafts) noexcept override {
      for (size_t i = 0; i < requests.size(); ++i) {
        for (uint32_t d = 0; d < requests[i].max_tokens; ++d) {
          drafts[i].tokens[drafts[i].count++] =
              static_cast<TokenId>(requests[i].history.size() - 1 + d);
        }
      }
      return {};
    }
    Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
      return {};
    }
    Status measured(const DraftStepCost&) noexcept override { return {}; }
    Status observe(std::span<const HiddenView>) noexcept override { return {}; }
  };
  Parrot parrot;
  RigOptions options = scripted("0 1 2 3 4 5 6 7");
  options.drafter = &parrot;
  Rig rig(options);
  Request request = greedy_request({7}, 20);
  request.stop_tokens = {3};
  const RequestId id = rig.submit(request);
  rig.run();
  EXPECT_THAT(rig.result(id).ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(rig.device().steps(), 2u);
  EXPECT_EQ(rig.result(id).record.generated_tokens, 4u);
  EXPECT_EQ(rig.result(id).record.accepted_tokens, 4u);
}

TEST(Ends, not_before_min_tokens) {
  RigOptions options;
  options.eos_tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  Rig rig(options);
  Request request = greedy_request({7}, 100);
  const RequestId without = rig.submit(request);
  request.min_tokens = 40;
  const RequestId with = rig.submit(request);
  rig.run();
  EXPECT_LT(rig.result(without).tokens.size(), 40u);
  ASSERT_GT(rig.result(with).tokens.size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_GT(rig.result(with).tokens[i].token, 20);
  EXPECT_EQ(rig.result(with).reason, FinishReason::eos);
}

TEST(Cancel, ends_a_running_request_and_frees_its_memory) {
  Rig rig({});
  const RequestId id = rig.submit(greedy_request(std::vector<TokenId>(40, 3), 100));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_GT(rig.usage().used_tokens, 40u);
  rig.engine().cancel(id);
  ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_TRUE(rig.engine().idle());
  EXPECT_EQ(rig.result(id).reason, FinishReason::cancelled);
  EXPECT_EQ(rig.result(id).tokens.size(), 5u);
  rig.expect_empty();
}

TEST(Cancel, ends_every_sample_also_those_that_were_not_forked_yet) {
  Rig rig({});
  Request request = greedy_request({1, 2, 3}, 50);
  request.samples = 3;
  const RequestId id = rig.submit(request);
  rig.engine().cancel(id);
  rig.run();
  ASSERT_EQ(rig.sink(id)->samples().size(), 3u);
  for (const auto& sample : rig.sink(id)->samples()) {
    EXPECT_TRUE(sample.ended);
    EXPECT_EQ(sample.reason, FinishReason::cancelled);
  }
}

TEST(Cancel, of_an_unknown_request_changes_nothing) {
  Rig rig({});
  rig.engine().cancel(77);
  const RequestId id = rig.submit(greedy_request({1}, 3));
  rig.engine().cancel(78);
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::length);
}

TEST(Samples, share_the_prompt_in_memory) {
  Rig rig({});
  Request request = greedy_request(std::vector<TokenId>(64, 3), 30);
  request.samples = 4;
  request.sampling.temperature = 1.0f;
  rig.submit(request);
  ASSERT_TRUE(rig.engine().step().ok());
  // Four whole blocks of prompt, shared by all.
  EXPECT_EQ(rig.usage().reserved_tokens, 64u);
  ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_EQ(rig.usage().reserved_tokens, 64u + 4 * 16);
  rig.run();
}

TEST(Samples, beyond_the_rows_wait_for_their_turn) {
  RigOptions options;
  options.max_sequences = 2;
  Rig rig(options);
  Request request = greedy_request({5, 6, 7}, 8);
  request.samples = 5;
  request.sampling.temperature = 1.0f;
  const RequestId id = rig.submit(request);
  rig.run();
  for (uint32_t sample = 0; sample < 5; ++sample) {
    EXPECT_EQ(rig.result(id, sample).ids(),
              oracle({options.vocabulary, 0}, request, sample, options.context_tokens).ids);
  }
}

TEST(Logprobs, are_those_of_the_raw_logits_most_likely_first) {
  Rig rig({});
  Request request = greedy_request({4, 5}, 3);
  request.sampling.logprobs = 5;
  const RequestId id = rig.submit(request);
  rig.run();
  const ToyModel model{61, 0};
  const std::vector<float> logits = model.next_logits(std::vector<TokenId>{4, 5});
  double total = 0.0;
  for (float logit : logits) total += std::exp(static_cast<double>(logit));
  const ResultSink::Token& first = rig.result(id).tokens.at(0);
  ASSERT_EQ(first.top.size(), 5u);
  EXPECT_EQ(first.token, first.top[0].token);  // greedy
  for (const TokenLogprob& top : first.top) {
    EXPECT_NEAR(top.logprob, logits[static_cast<size_t>(top.token)] - std::log(total), 1e-5);
  }
  for (size_t i = 1; i < 5; ++i) EXPECT_GE(first.top[i - 1].logprob, first.top[i].logprob);
}

TEST(Records, say_when_and_how_much) {
  Rig rig({});
  rig.clock().advance(1000);
  Request request = greedy_request({4, 5}, 3);
  request.arrival_ns = 400;
  const RequestId id = rig.submit(request);
  for (int i = 0; i < 3; ++i) {
    rig.clock().advance(100);
    ASSERT_TRUE(rig.engine().step().ok());
  }
  const RequestRecord& record = rig.result(id).record;
  EXPECT_EQ(record.arrival_ns, 400);
  EXPECT_EQ(record.admitted_ns, 1100);
  EXPECT_THAT(record.token_ns, ElementsAre(1100, 1200, 1300));
  EXPECT_EQ(record.time_to_first_token_ns(), 700);
  EXPECT_EQ(record.time_per_output_token_ns(), 100.0);
  EXPECT_EQ(record.prompt_tokens, 2u);
  EXPECT_EQ(record.generated_tokens, 3u);
  EXPECT_EQ(rig.engine().totals().generated_tokens, 3u);
  EXPECT_EQ(rig.engine().totals().row_steps, 3u);
  EXPECT_EQ(rig.engine().totals().rows_computed, 4u);
}

TEST(Digest, stays_zero_when_it_is_not_asked_for) {
  RigOptions options;
  options.engine.logits_digest = false;
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request({4, 5}, 3));
  rig.run();
  EXPECT_EQ(rig.result(id).record.logits_digest, 0u);
}

}  // namespace
}  // namespace tenon
