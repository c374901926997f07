// Beam search against a plain reference over the toy model, under schedulers, KV managers, short
// memory and preemption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fake_device/rig/beam_reference.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::vector<TokenId> kEos = {3, 9, 20, 41, 44, 50};

std::vector<Request> mixed_requests(uint32_t vocabulary) {
  std::vector<Request> requests;
  TestRandom random(3);
  for (uint32_t length : {1u, 15u, 16u, 17u, 40u, 5u, 33u}) {
    Request request = beam_request(random.tokens(length, vocabulary),
                                   1 + static_cast<uint32_t>(requests.size()) % 5, 12);
    request.samples = 1 + random.below(request.beams);
    request.length_penalty = requests.size() % 2 == 0 ? 1.0f : 0.0f;
    request.beam_stop = static_cast<BeamStop>(requests.size() % 3);
    request.min_tokens = requests.size() % 4 == 2 ? 5 : 0;
    requests.push_back(request);
  }
  return requests;
}

// Returns the preemptions on the way.
uint64_t expect_reference(RigOptions options) {
  options.eos_tokens = kEos;
  Rig rig(options);
  const std::vector<Request> requests = mixed_requests(options.vocabulary);
  for (const Request& request : requests) rig.submit(request);
  rig.run();
  const ToyModel model = options.model();
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<Hypothesis> expected = beam_reference(model, requests[i], kEos);
    const auto& samples = rig.sink(i + 1)->samples();
    EXPECT_EQ(samples.size(), requests[i].samples) << i;
    for (size_t s = 0; s < samples.size(); ++s) {
      EXPECT_TRUE(samples[s].ended);
      EXPECT_EQ(samples[s].message, "");
      EXPECT_EQ(samples[s].ids(), expected[s].tokens) << i << " answer " << s;
      double sum = 0.0;
      for (const auto& token : samples[s].tokens) sum += static_cast<double>(token.logprob);
      EXPECT_NEAR(sum, expected[s].sum, 1e-4);
      const bool eos = std::find(kEos.begin(), kEos.end(), samples[s].ids().back()) != kEos.end();
      EXPECT_EQ(samples[s].reason, eos ? FinishReason::eos : FinishReason::length);
      EXPECT_EQ(samples[s].record.generated_tokens, samples[s].tokens.size());
    }
  }
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
  return rig.engine().totals().preemptions;
}

TEST(Beams, find_the_answers_of_the_definition) {
  expect_reference({});
}

TEST(Beams, find_them_where_a_group_is_recurrent) {
  for (const char* kv : {"naive", "paged", "prefix", "radix"}) {
    RigOptions options;
    options.kv_cache = kv;
    options.recurrent = true;
    SCOPED_TRACE(kv);
    expect_reference(options);
    options.max_sequences = 5;
    options.max_batch_tokens = 6;  // some beams are ahead of their group
    expect_reference(options);
  }
}

TEST(Beams, find_them_under_every_scheduler_and_kv_manager) {
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const char* kv : {"naive", "paged"}) {
      RigOptions options;
      options.scheduler = scheduler;
      options.kv_cache = kv;
      SCOPED_TRACE(std::string(scheduler) + " " + kv);
      expect_reference(options);
    }
  }
}

TEST(Beams, find_them_when_single_beams_are_preempted) {
  RigOptions options;
  options.block_tokens = 4;
  options.context_tokens = 64;
  options.kv_tokens = 104;
  EXPECT_GT(expect_reference(options), 0u);
  options.scheduler_options = "chunk_tokens=3";
  EXPECT_GT(expect_reference(options), 0u);
}

TEST(Beams, find_them_when_a_step_has_no_row_for_everyone) {
  RigOptions options;
  options.max_sequences = 5;
  options.max_batch_tokens = 6;
  expect_reference(options);
}

TEST(Beams, get_no_drafts_beside_requests_that_do) {
  RigOptions options;
  ToyDrafter drafter({options.vocabulary}, 4, 5);
  options.drafter = &drafter;
  Rig rig(options);
  Request beams = beam_request({1, 2, 3}, 3, 10);
  rig.submit(beams);
  const RequestId plain = rig.submit(greedy_request({4, 5, 6}, 20));
  rig.run();
  const ToyModel model{options.vocabulary, 0};
  EXPECT_EQ(rig.result(1).ids(), beam_reference(model, beams, {})[0].tokens);
  EXPECT_EQ(rig.result(plain).ids(), oracle(model, greedy_request({4, 5, 6}, 20), 0, 256).ids);
  EXPECT_GT(drafter.accepted(), 0u);
  EXPECT_EQ(drafter.live(), 0);
}

TEST(Beams, of_one_are_greedy) {
  Rig rig({});
  rig.submit(beam_request({7, 8}, 1, 15));
  rig.submit(greedy_request({7, 8}, 15));
  rig.run();
  EXPECT_EQ(rig.result(1).ids(), rig.result(2).ids());
}

TEST(Beams, share_the_blocks_of_what_they_have_in_common) {
  constexpr uint32_t kBeams = 4, kPrompt = 64, kAnswer = 32;
  uint64_t peak = 0;
  RigOptions options;
  options.block_tokens = 8;
  options.engine.on_step = [&](const StepRecord& step) {
    peak = std::max(peak, step.kv_reserved_tokens);
  };
  Rig rig(options);
  rig.submit(beam_request(std::vector<TokenId>(kPrompt, 5), kBeams, kAnswer));
  rig.run();
  EXPECT_LT(peak, kPrompt + kBeams * (kAnswer + 8));
  EXPECT_LT(peak, kBeams * (kPrompt + kAnswer) * 6 / 10) << "separate sequences take 384";
}

TEST(Beams, that_are_cancelled_end_as_one) {
  Rig rig({});
  const RequestId id = rig.submit(beam_request({1, 2}, 4, 50));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.engine().step().ok());
  rig.engine().cancel(id);
  rig.run();
  ASSERT_EQ(rig.sink(id)->samples().size(), 4u);
  for (const auto& sample : rig.sink(id)->samples()) {
    EXPECT_EQ(sample.reason, FinishReason::cancelled);
    EXPECT_TRUE(sample.tokens.empty());
  }
}

TEST(Beams, that_lose_their_logits_fail_alone) {
  RigOptions options;
  Rig rig(options);
  const ToyModel model{options.vocabulary, 0};
  const Request beams = beam_request({1, 2}, 3, 20);
  rig.device().faults.nan_after = beam_reference(model, beams, {})[0].tokens[1];
  const RequestId id = rig.submit(beams);
  rig.run();
  EXPECT_EQ(rig.result(id).reason, FinishReason::error);
  EXPECT_THAT(rig.result(id).message, HasSubstr("a row needs at least one finite logit"));
}

TEST(Beams, report_as_many_alternatives_as_were_asked_for) {
  RigOptions options;
  options.text = true;
  options.eos_tokens = kEos;
  Rig rig(options);
  Request request = beam_request({1, 2, 3}, 2, 6);
  request.sampling.logprobs = 3;
  const RequestId id = rig.submit(request);
  rig.run();
  for (const auto& sample : rig.sink(id)->samples()) {
    for (const auto& token : sample.tokens) {
      ASSERT_EQ(token.top.size(), 3u);
      EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
      if (token.rank <= 3) {
        EXPECT_EQ(token.top[token.rank - 1].token, token.token);
      }
    }
    const bool eos = sample.reason == FinishReason::eos;
    EXPECT_EQ(sample.text.size(), sample.tokens.size() - (eos ? 1 : 0));
  }
}

std::string refusal(Request request, RigOptions options = {}) {
  Rig rig(std::move(options));
  Result<RequestId> id = rig.engine().submit(std::move(request));
  EXPECT_FALSE(id.ok());
  return id.ok() ? "" : std::string(id.status().message());
}

TEST(Beams, are_refused_with_what_would_have_no_place) {
  Request request = beam_request({1}, 4, 10);
  request.sampling.top_k = 5;
  request.stop = {"x"};
  request.best_of = 6;
  EXPECT_EQ(refusal(request),
            "best_of and beams exclude each other – leave one out\n"
            "a beam search ends at tokens, not at stop strings – leave stop out, or give "
            "stop_tokens\n"
            "a beam search ranks by the model's own probabilities, but top_k is 5 – leave it out");
  request = beam_request({1}, 4, 10);
  request.samples = 5;
  EXPECT_THAT(refusal(request), HasSubstr("samples is 5, more than beams, 4"));
  EXPECT_EQ(refusal(beam_request({1}, 9, 10)),
            "9 beams were asked for – a step has room for 8 sequences – ask for fewer, or raise "
            "limits.max_sequences");
  RigOptions small;
  small.kv_tokens = 128;
  EXPECT_EQ(refusal(beam_request({1}, 4, 60), small),
            "4 beams may need 256 tokens of K/V – the cache has room for 128 – ask for fewer "
            "beams, lower max_tokens or raise kv_cache.memory");
}

}  // namespace
}  // namespace tenon
