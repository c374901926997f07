// What a request may ask for besides tokens: scores of its prompt, the best of several, the text of
// its stop; and what it may not ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double log_probability(const std::vector<float>& logits, TokenId token) {
  double total = 0.0;
  for (float logit : logits) total += std::exp(static_cast<double>(logit));
  return logits[static_cast<size_t>(token)] - std::log(total);
}

void expect_prompt_scores(const RigOptions& options) {
  Rig rig(options);
  TestRandom random(5);
  Request request;
  request.prompt = random.tokens(50, options.vocabulary);
  request.max_tokens = 5;
  request.samples = 2;
  request.prompt_logprobs = true;
  request.sampling.logprobs = 2;
  // Another of the same prompt: what it left in the cache must not hide rows.
  const RequestId first = rig.submit(request), second = rig.submit(request);
  for (int i = 0; i < 6; ++i) rig.submit(greedy_request(random.tokens(30, options.vocabulary), 30));
  rig.run(100000);
  const ToyModel model{options.vocabulary, options.window_tokens};
  for (RequestId id : {first, second}) {
    const auto& scores = rig.sink(id)->prompt();
    ASSERT_EQ(scores.size(), 49u);
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_EQ(scores[i].token, request.prompt[i + 1]);
      const auto logits = model.next_logits(std::span(request.prompt).first(i + 1));
      EXPECT_NEAR(scores[i].logprob, log_probability(logits, scores[i].token), 1e-5) << i;
      ASSERT_EQ(scores[i].top.size(), 2u);
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      EXPECT_EQ(scores[i].top[0].token, best);
    }
    EXPECT_EQ(rig.result(id, 1).tokens.size(), 5u);
  }
}

TEST(PromptLogprobs, are_those_of_the_model) {
  expect_prompt_scores({});
}
TEST(PromptLogprobs, come_once_however_the_prompt_is_cut_and_preempted) {
  RigOptions options;
  options.max_batch_tokens = 11;
  expect_prompt_scores(options);
  options.block_tokens = 4;
  options.context_tokens = 64;
  options.kv_tokens = 128;
  options.scheduler_options = "chunk_tokens=7";
  expect_prompt_scores(options);
}

TEST(BestOf, delivers_the_most_likely_answers_in_order) {
  RigOptions options;
  options.text = true;
  Rig all(options), best(options);
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 6;
  request.sampling.seed = 4;
  request.sampling.logprobs = 1;
  request.samples = 7;
  all.submit(request);
  all.run();
  std::vector<std::pair<double, uint32_t>> ranking;
  for (uint32_t s = 0; s < 7; ++s) {
    double sum = 0.0;
    for (const auto& token : all.result(1, s).tokens) sum -= static_cast<double>(token.logprob);
    ranking.emplace_back(sum / 6, s);
  }
  std::sort(ranking.begin(), ranking.end());
  request.samples = 2;
  request.best_of = 7;
  request.sampling.logprobs = 0;
  best.submit(request);
  best.run();
  ASSERT_EQ(best.sink(1)->samples().size(), 2u);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const auto& chosen = all.result(1, ranking[rank].second);
    EXPECT_EQ(best.result(1, rank).ids(), chosen.ids());
    EXPECT_EQ(best.result(1, rank).text, chosen.text);
    EXPECT_EQ(best.result(1, rank).record.sample, rank);
    EXPECT_TRUE(best.result(1, rank).tokens[0].top.empty());
  }
}

TEST(BestOf, ends_every_answer_when_it_is_cancelled) {
  Rig rig({});
  Request request;
  request.prompt = {1};
  request.max_tokens = 50;
  request.samples = 2;
  request.best_of = 4;
  rig.submit(request);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(rig.engine().step().ok());
  rig.engine().cancel(1);
  rig.run();
  ASSERT_EQ(rig.sink(1)->samples().size(), 2u);
  EXPECT_EQ(rig.result(1, 1).reason, FinishReason::cancelled);
}

RigOptions scripted(std::string script) {
  RigOptions options;
  options.sampler = "replay";
  options.sampler_options = "tokens=" + std::move(script);
  options.text = true;
  return options;
}

TEST(IncludeStop, keeps_the_text_of_a_stop_string) {
  Rig rig(scripted("1 2 3 4 5"));
  Request request = greedy_request({7}, 9);
  request.stop = {"de"};
  request.include_stop = true;
  rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(1).text, "bcde");
  EXPECT_EQ(rig.result(1).stop, "de");
  EXPECT_EQ(rig.result(1).reason, FinishReason::stop);
}

TEST(IncludeStop, keeps_the_text_of_a_stop_token_and_not_of_the_end_of_text) {
  RigOptions options = scripted("1 2 3");
  options.eos_tokens = {2};
  Rig rig(options);
  Request request = greedy_request({7}, 9);
  request.include_stop = true;
  request.stop_tokens = {3};
  rig.submit(request);
  request.ignore_eos = true;
  rig.submit(request);
  rig.run();
  EXPECT_EQ(rig.result(1).text, "b");
  EXPECT_EQ(rig.result(1).reason, FinishReason::eos);
  EXPECT_EQ(rig.result(2).text, "bcd");
  EXPECT_THAT(rig.result(2).ids(), ElementsAre(1, 2, 3));
}

std::string refusal(Request request) {
  Rig rig({});
  Result<RequestId> id = rig.engine().submit(std::move(request));
  EXPECT_FALSE(id.ok());
  return id.ok() ? "" : std::string(id.status().message());
}

TEST(Refusal, names_everything_that_is_wrong_at_once) {
  Request request = greedy_request({1, 99}, 4);
  request.sampling.temperature = -1.0f;
  request.sampling.min_p = 1.5f;
  request.sampling.watermark_gamma = 1.0f;
  request.sampling.dry_allowed_length = 0;
  request.sampling.repetition_penalty = std::numeric_limits<float>::quiet_NaN();
  request.best_of = 5000;
  request.lists.logit_bias = {{70, 1.0f}};
  request.lists.bad_words = {{}, {-2}};
  request.lists.order = {SamplingStage::top_k, SamplingStage::top_k};
  EXPECT_EQ(refusal(request),
            "best_of is 5000 – it must be a whole number from 0 to 1024 – change it or leave it "
            "out\n"
            "temperature is -1.0 – it must be a number from 0.0 to 1000.0 – change it or leave it "
            "out\n"
            "min_p is 1.5 – it must be a number from 0.0 to 1.0 – change it or leave it out\n"
            "repetition_penalty is nan – it must be a number above 0.0 and at most 100.0 – change "
            "it or leave it out\n"
            "dry_allowed_length is 0 – it must be a whole number from 1 to 1048576 – change it or "
            "leave it out\n"
            "watermark_gamma is 1.0 – it must be a number above 0.0 and below 1.0 – change it or "
            "leave it out\n"
            "prompt token 1 has id 99 – the vocabulary has ids 0 to 60 – encode the text with this "
            "model's own tokenizer\n"
            "bad word 0 has no tokens\n"
            "bad word 1: token 0 has id -2 – the vocabulary has ids 0 to 60\n"
            "logit_bias has token 70 – the vocabulary has ids 0 to 60\n"
            "the order of sampling names top_k twice – name each stage once at most");
}

TEST(Refusal, keeps_mirostat_from_what_it_replaces) {
  Request request = greedy_request({1}, 4);
  request.sampling.mirostat = 2;
  request.sampling.top_k = 40;
  EXPECT_EQ(refusal(request),
            "mirostat needs randomness, but temperature is 0 – raise it, or leave mirostat out\n"
            "mirostat decides how many tokens stay, but top_k is 40 – leave one of them out");
}

TEST(Lists, reach_the_sampler) {
  RigOptions options;
  Rig rig(options);
  Request request = greedy_request({1, 2}, 12);
  request.lists.allowed_tokens = {5, 6, 7};
  request.lists.bad_words = {{6, 6}, {7}};
  request.lists.logit_bias = {{6, 100.0f}};
  rig.submit(request);
  rig.run();
  const std::vector<TokenId> ids = rig.result(1).ids();
  EXPECT_EQ(ids.size(), 12u);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], i % 2 == 0 ? 6 : 5) << i;
}

// Takes what it is told to know, and remembers what it was told.
class VendorSampler final : public Sampler {
 public:
  explicit VendorSampler(Sampler& inner) : inner_(inner) {}
  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept override {
    for (const VendorParam& param : params.vendor) {
      told.push_back(std::string(param.key) + "=" +
                     (param.is_text ? std::string(param.text) : std::to_string(param.number)));
    }
    return inner_.begin(seq, params, parent);
  }
  Status end(SeqId seq) noexcept override { return inner_.end(seq); }
  Status sample(std::span<const SampleRow> rows,
                std::span<SampleResult> results) noexcept override {
    return inner_.sample(rows, results);
  }
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override {
    return inner_.verify(rows, results);
  }
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override {
    return inner_.distribution(row, probs);
  }
  std::vector<std::string> told;

 private:
  Sampler& inner_;
};

TEST(VendorParams, reach_the_sampler_that_knows_their_keys) {
  LoadedPlugin<Sampler> standard("sampler", "standard");
  VendorSampler sampler(*standard);
  RigOptions options;
  options.own_sampler = &sampler;
  options.sampler_params = {"acme.heat", "acme.mode"};
  Rig rig(options);
  Request request = greedy_request({1, 2}, 3);
  request.lists.params = {{"acme.heat", false, 0.5, ""}, {"acme.mode", true, 0.0, "slow"}};
  request.samples = 2;
  rig.submit(request);
  rig.run();
  EXPECT_THAT(sampler.told, ElementsAre("acme.heat=0.500000", "acme.mode=slow",
                                        "acme.heat=0.500000", "acme.mode=slow"));
}

TEST(VendorParams, that_no_one_knows_are_refused) {
  Request request = greedy_request({1}, 4);
  request.lists.params = {{"acme.heat", false, 0.5, ""}, {"acme.heat", false, 1.0, ""}};
  EXPECT_EQ(refusal(request),
            "sampler 'standard' has no parameter \"acme.heat\" – it takes none of third parties – "
            "leave it out, or use a sampler that has it\n"
            "the parameter \"acme.heat\" is given twice – name it once");
}

}  // namespace
}  // namespace tenon
