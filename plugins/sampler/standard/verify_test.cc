// Drafts: exact verification gives what step-by-step sampling gives, rejection gives the target's
// distribution; and whatever is asked of whatever row, something valid comes back.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/support/sampler_fixture.h"

namespace tenon {
namespace {

using testing::ElementsAre;

class Verify : public StandardFixture {
 protected:
  struct Verified {
    std::vector<TokenId> tokens;
    std::vector<SampleResult> results;
  };

  // Rows after `history` and each draft.
  Verified verify(const Story& story, const std::vector<TokenId>& history, uint32_t prompt,
                  const SamplingParams& params, const std::vector<TokenId>& drafts,
                  const float* draft_probs = nullptr) {
    std::vector<TokenId> all = history;
    all.insert(all.end(), drafts.begin(), drafts.end());
    std::vector<std::vector<float>> logits;
    for (size_t i = 0; i <= drafts.size(); ++i) {
      logits.push_back(story.logits_after(std::span(all).first(history.size() + i)));
    }
    return verify_rows(logits, all, history.size(), prompt, params, drafts, draft_probs);
  }

  Verified verify_rows(const std::vector<std::vector<float>>& logits,
                       const std::vector<TokenId>& all, size_t known, uint32_t prompt,
                       const SamplingParams& params, const std::vector<TokenId>& drafts,
                       const float* draft_probs) {
    std::vector<SampleRow> rows;
    for (size_t i = 0; i <= drafts.size(); ++i) {
      SampleRow row = row_of(logits[i], params, {});
      row.history = std::span(all).first(known + i);
      row.prompt_tokens = prompt;
      row.key.position = static_cast<uint32_t>(known + i);
      rows.push_back(row);
    }
    Verified out;
    out.results.resize(drafts.size() + 1);
    VerifyRows given;
    given.rows = rows;
    given.drafts = drafts;
    given.draft_probs = draft_probs;
    VerifyResult result;
    result.tokens = out.results;
    EXPECT_TRUE(sampler_->verify({&given, 1}, {&result, 1}).ok());
    EXPECT_LE(result.count, drafts.size() + 1);
    for (uint32_t i = 0; i < result.count; ++i) out.tokens.push_back(out.results[i].token);
    return out;
  }
};

const Story kStory;

TEST_F(Verify, accepts_greedy_drafts_up_to_the_first_wrong_one) {
  const SamplingParams greedy{.temperature = 0.0f};
  std::vector<std::vector<float>> logits(4, std::vector<float>(10, 0.0f));
  for (size_t i = 0; i < 4; ++i) logits[i][i + 1] = 1.0f;  // the target says 1 2 3 4
  ASSERT_TRUE(sampler_->begin(1, greedy, kNoSeq).ok());
  const auto tokens = [&](std::vector<TokenId> drafts) {
    std::vector<TokenId> all = {0};
    all.insert(all.end(), drafts.begin(), drafts.end());
    return verify_rows(logits, all, 1, 1, greedy, drafts, nullptr).tokens;
  };
  EXPECT_THAT(tokens({1, 2, 3}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(tokens({1, 5, 3}), ElementsAre(1, 2));
  EXPECT_THAT(tokens({}), ElementsAre(1));
  EXPECT_THAT(tokens({9}), ElementsAre(1));
  EXPECT_THAT(tokens({kNoToken, 2}), ElementsAre(1));
}

TEST_F(Verify, by_rejection_treats_greedy_targets_alike) {
  const SamplingParams greedy{.temperature = 0.0f};
  std::vector<std::vector<float>> logits(4, std::vector<float>(10, 0.0f));
  for (size_t i = 0; i < 4; ++i) logits[i][i + 1] = 1.0f;
  ASSERT_TRUE(sampler_->begin(1, greedy, kNoSeq).ok());
  const auto tokens = [&](std::vector<TokenId> drafts) {
    std::vector<float> q(drafts.size() * 10, 0.0f);
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (drafts[i] >= 0 && drafts[i] < 10) q[i * 10 + static_cast<size_t>(drafts[i])] = 1.0f;
    }
    std::vector<TokenId> all = {0};
    all.insert(all.end(), drafts.begin(), drafts.end());
    return verify_rows(logits, all, 1, 1, greedy, drafts, q.data()).tokens;
  };
  EXPECT_THAT(tokens({1, 2, 3}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(tokens({1, 5, 3}), ElementsAre(1, 2));
  EXPECT_THAT(tokens({kNoToken, 2}), ElementsAre(1));
  EXPECT_THAT(tokens({10}), ElementsAre(1)) << "no token of the vocabulary";
}

// Draws a draft from q, verifies it, and counts what comes first and second.
TEST_F(Verify, by_rejection_draws_from_the_target_whatever_the_drafter_thinks) {
  constexpr uint32_t kVocabulary = 12, kTrials = 60000;
  const std::vector<SamplingParams> all = {{.temperature = 1.0f},
                                           {.temperature = 0.7f, .top_k = 5},
                                           {.temperature = 1.3f, .top_p = 0.8f}};
  for (SamplingParams params : all) {
    for (const float likeness : {0.0f, 0.5f, 1.0f}) {
      const std::vector<float> target = random_logits(kVocabulary, 5, 4.0f);
      const std::vector<float> bonus = random_logits(kVocabulary, 6, 4.0f);
      std::vector<float> drafter = random_logits(kVocabulary, 7, 4.0f);
      for (uint32_t i = 0; i < kVocabulary; ++i) {
        drafter[i] += likeness * (target[i] - drafter[i]);
      }
      const std::vector<float> p = distribution(target, params);
      const std::vector<float> p_bonus = distribution(bonus, params);
      const std::vector<float> q = distribution(drafter, params);
      std::vector<uint32_t> first(kVocabulary, 0), second(kVocabulary, 0);
      uint32_t accepted = 0;
      ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
      for (uint32_t trial = 0; trial < kTrials; ++trial) {
        params.seed = trial;
        double u = sdk::uniform({trial, 0, 1}, RandomPurpose::draft);
        TokenId draft = 0;
        for (uint32_t i = 0; i < kVocabulary; ++i) {
          if (q[i] > 0.0f) draft = static_cast<TokenId>(i);
          if ((u -= static_cast<double>(q[i])) < 0.0) break;
        }
        const auto tokens =
            verify_rows({target, bonus}, {0, draft}, 1, 1, params, {draft}, q.data()).tokens;
        ASSERT_FALSE(tokens.empty());
        ++first[static_cast<size_t>(tokens[0])];
        accepted += tokens.size() == 2;
        if (tokens.size() == 2) ++second[static_cast<size_t>(tokens[1])];
      }
      EXPECT_TRUE(sampler_->end(1).ok());
      const auto chi_square = [&](const std::vector<uint32_t>& counts, const std::vector<float>& of,
                                  double trials) {
        double sum = 0.0;
        for (uint32_t i = 0; i < kVocabulary; ++i) {
          const double expected = static_cast<double>(of[i]) * trials;
          if (of[i] == 0.0f) {
            EXPECT_EQ(counts[i], 0u) << i;
          } else {
            sum += (counts[i] - expected) * (counts[i] - expected) / expected;
          }
        }
        return sum;
      };
      // 11 degrees of freedom: above 38 once in ten thousand.
      EXPECT_LT(chi_square(first, p, kTrials), 38.0) << likeness;
      EXPECT_LT(chi_square(second, p_bonus, accepted), 38.0) << likeness;
      double overlap = 0.0;
      for (uint32_t i = 0; i < kVocabulary; ++i)
        overlap += static_cast<double>(std::min(p[i], q[i]));
      EXPECT_NEAR(accepted / double{kTrials}, overlap, 0.012);
    }
  }
}

TEST_F(Verify, by_rejection_depends_on_its_own_seed_alone) {
  const SamplingParams params{.temperature = 1.0f, .seed = 3};
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  const std::vector<float> q(40 * 3, 1 / 40.0f);
  const auto once = verify(kStory, {1, 2}, 1, params, {5, 6, 7}, q.data()).tokens;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(verify(kStory, {1, 2}, 1, params, {5, 6, 7}, q.data()).tokens, once);
  }
}

TEST_F(Verify, by_rejection_survives_probabilities_that_are_none) {
  const SamplingParams params{.temperature = 1.0f};
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  for (const float bad : {0.0f, kNan, -1.0f, kInf, 5.0f}) {
    const std::vector<float> q(40 * 2, bad);
    const auto tokens = verify(kStory, {1, 2}, 1, params, {5, 6}, q.data()).tokens;
    ASSERT_FALSE(tokens.empty());
    for (TokenId token : tokens) EXPECT_TRUE(token >= 0 && token < 40);
  }
}

TEST_F(Verify, applies_penalties_with_the_drafts_before_each_row) {
  // The second row must not draw the first draft again.
  const SamplingParams params{.temperature = 0.0f, .presence_penalty = 100.0f};
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  const std::vector<std::vector<float>> logits(3, {3.0f, 2.0f, 1.0f, 0.0f});
  const auto tokens = verify_rows(logits, {3, 0, 1}, 1, 1, params, {0, 1}, nullptr).tokens;
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2));
}

// ---- mirostat -----------------------------------------------------------------------------------

class Mirostat : public Verify {};

TEST_F(Mirostat, brings_surprise_to_its_target) {
  for (const uint32_t version : {1u, 2u}) {
    for (const float tau : {1.0f, 3.0f}) {
      SamplingParams params;
      params.mirostat = version;
      params.mirostat_tau = tau;
      const Story story{.vocabulary = 2000, .seed = 9, .spread = 20.0f};
      ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
      std::vector<TokenId> history = {1};
      double surprise = 0.0;
      constexpr int kSteps = 400;
      for (int i = 0; i < kSteps; ++i) {
        const std::vector<float> logits = story.logits_after(history);
        SampleRow row = row_of(logits, params, {});
        row.history = history, row.prompt_tokens = 1;
        std::vector<float> p(logits.size());
        ASSERT_TRUE(sampler_->distribution(row, p).ok());
        row.key.position = static_cast<uint32_t>(history.size());
        SampleResult result;
        ASSERT_TRUE(sampler_->sample({&row, 1}, {&result, 1}).ok());
        ASSERT_NE(result.token, kNoToken);
        surprise -= std::log2(static_cast<double>(p[static_cast<size_t>(result.token)]));
        history.push_back(result.token);
      }
      EXPECT_TRUE(sampler_->end(1).ok());
      EXPECT_NEAR(surprise / kSteps, tau, 0.25 * tau) << version;
    }
  }
}

TEST_F(Mirostat, version_2_cuts_what_surprises_more_than_mu) {
  SamplingParams params;
  params.mirostat = 2;
  params.mirostat_tau = 0.8f;  // mu starts at 1.6 bits: p >= 0.33
  EXPECT_THAT(filtered({0.1f, 0.2f, 0.3f, 0.4f}, params), ElementsAre(0, 0, 0, 1));
  params.mirostat_tau = 1.0f;  // 2 bits: p >= 0.25
  const std::vector<float> probs = filtered({0.1f, 0.2f, 0.3f, 0.4f}, params);
  EXPECT_NEAR(probs[2], 3 / 7.0, 1e-6);
  EXPECT_NEAR(probs[3], 4 / 7.0, 1e-6);
}

TEST_F(Mirostat, follows_the_history_whatever_was_drafted_and_rejected) {
  SamplingParams params{.temperature = 0.9f, .seed = 5};
  params.mirostat = 2;
  params.mirostat_tau = 2.0f;
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  std::vector<TokenId> alone = {1, 2};
  while (alone.size() < 60) alone.push_back(step(kStory, alone, 2, params));
  EXPECT_TRUE(sampler_->end(1).ok());
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  std::vector<TokenId> drafted = {1, 2};
  while (drafted.size() < 60) {
    std::vector<TokenId> drafts(alone.begin() + static_cast<std::ptrdiff_t>(drafted.size()),
                                alone.end());
    drafts.resize(std::min<size_t>(drafts.size(), drafted.size() % 5));
    if (drafts.size() > 2) drafts[2] = (drafts[2] + 1) % 40;
    for (TokenId token : verify(kStory, drafted, 2, params, drafts).tokens)
      drafted.push_back(token);
  }
  drafted.resize(60);
  EXPECT_EQ(drafted, alone);
  // A fork at any point goes on as its parent does.
  ASSERT_TRUE(sampler_->begin(2, params, 1).ok());
  EXPECT_TRUE(sampler_->end(1).ok());
  ASSERT_TRUE(sampler_->begin(1, params, 2).ok());
  std::vector<TokenId> forked(alone.begin(), alone.begin() + 40);
  while (forked.size() < 60) forked.push_back(step(kStory, forked, 2, params));
  EXPECT_EQ(forked, alone);
}

// ---- anything at all ----------------------------------------------------------------------------

class Anything : public Verify {
 protected:
  // Small numbers from a seed.
  uint32_t below(uint32_t bound) {
    return static_cast<uint32_t>(sdk::uniform({seed_, 0, ++calls_}, RandomPurpose::sample) * bound);
  }
  float real(float low, float high) {
    return low + (high - low) * static_cast<float>(below(1u << 20)) / (1u << 20);
  }
  bool once_in(uint32_t n) { return below(n) == 0; }

  SamplingParams params(uint32_t vocabulary) {
    SamplingParams p;
    p.temperature = once_in(4) ? 0.0f : real(0.05f, 3.0f);
    if (once_in(2)) p.top_k = 1 + below(vocabulary + 3);
    if (once_in(2)) p.top_p = real(0.01f, 1.0f);
    if (once_in(3)) p.min_p = real(0.0f, 1.0f);
    if (once_in(3)) p.typical_p = real(0.01f, 1.0f);
    if (once_in(3)) p.top_n_sigma = real(0.1f, 3.0f);
    if (once_in(3)) p.xtc_probability = real(0.1f, 1.0f), p.xtc_threshold = real(0.0f, 0.6f);
    if (once_in(4)) p.dynamic_temperature_range = real(0.1f, 2.0f);
    if (once_in(3)) p.repetition_penalty = real(0.5f, 3.0f);
    if (once_in(3)) p.presence_penalty = real(-2.0f, 2.0f);
    if (once_in(3)) p.frequency_penalty = real(-2.0f, 2.0f);
    if (once_in(3)) p.penalty_last_tokens = below(20);
    if (once_in(3)) p.dry_multiplier = real(0.1f, 4.0f), p.dry_allowed_length = below(4);
    if (once_in(5)) p.watermark_delta = real(-1.0f, 4.0f), p.watermark_context = below(4);
    if (once_in(4) && p.temperature > 0.0f) p.mirostat = 1 + below(2);
    if (once_in(3)) {
      for (uint32_t i = below(5); i > 0; --i) bias_.push_back({token(vocabulary), real(-5, 5)});
      p.logit_bias = bias_;
    }
    if (once_in(5)) {
      for (uint32_t i = 1 + below(vocabulary); i > 0; --i) allowed_.push_back(token(vocabulary));
      p.allowed_tokens = allowed_;
    }
    if (once_in(4)) {
      for (TokenId& id : word_) id = token(vocabulary);
      words_[0] = std::span(word_).first(1 + below(3));
      p.bad_words = words_;
    }
    if (once_in(3)) {
      for (uint32_t i = 0; i < kSamplingStages; ++i)
        order_.push_back(static_cast<SamplingStage>(i));
      for (size_t i = order_.size(); i > 1; --i)
        std::swap(order_[i - 1], order_[below(static_cast<uint32_t>(i))]);
      order_.resize(1 + below(kSamplingStages));
      p.order = order_;
    }
    if (once_in(3)) p.logprobs = below(6);
    p.seed = below(1000);
    return p;
  }
  TokenId token(uint32_t vocabulary) { return static_cast<TokenId>(below(vocabulary)); }

  void begin_case(uint64_t seed) {
    seed_ = seed, calls_ = 0;
    bias_.clear(), allowed_.clear(), order_.clear();
  }

  uint64_t seed_ = 0;
  uint32_t calls_ = 0;
  std::vector<LogitBias> bias_;
  std::vector<TokenId> allowed_;
  TokenId word_[3] = {};
  std::span<const TokenId> words_[1];
  std::vector<SamplingStage> order_;
};

TEST_F(Anything, asked_of_any_row_gives_a_token_or_a_failed_row) {
  uint32_t failed = 0, good = 0;
  for (uint64_t round = 0; round < 4000; ++round) {
    begin_case(round);
    const uint32_t vocabulary = once_in(10) ? 1 + below(3) : 2 + below(300);
    const SamplingParams p = params(vocabulary);
    std::vector<float> logits = random_logits(vocabulary, round, real(0.0f, 60.0f));
    for (float& logit : logits) {
      if (once_in(6)) logit = std::round(logit);  // ties
      if (once_in(9)) logit = once_in(3) ? kNan : -kInf;
      if (once_in(150)) logit = once_in(2) ? kInf : 1e-41f;
    }
    if (once_in(40)) std::fill(logits.begin(), logits.end(), -kInf);
    Before before;
    for (uint32_t i = below(30); i > 0; --i) before.history.push_back(token(vocabulary));
    before.prompt = below(static_cast<uint32_t>(before.history.size()) + 1);
    const Drawn drawn = draw(logits, p, before);
    const std::vector<float> probs = distribution(logits, p, before);
    double total = 0.0;
    for (float prob : probs) {
      ASSERT_TRUE(prob >= 0.0f && prob <= 1.000001f) << round;
      total += static_cast<double>(prob);
    }
    if (drawn.token == kNoToken) {
      ++failed;
      ASSERT_EQ(total, 0.0) << round;
      continue;
    }
    ++good;
    ASSERT_LT(static_cast<uint32_t>(drawn.token), vocabulary) << round;
    ASSERT_NEAR(total, 1.0, 1e-4) << round;
    ASSERT_GT(probs[static_cast<size_t>(drawn.token)], 0.0f) << round;
    ASSERT_FALSE(std::isnan(logits[static_cast<size_t>(drawn.token)])) << round;
    ASSERT_LE(drawn.logprob, 1e-5f) << round;
    ASSERT_LE(drawn.top.size(), p.logprobs) << round;
  }
  EXPECT_GT(failed, 50u);
  EXPECT_GT(good, 3000u);
}

TEST_F(Anything, is_verified_to_the_tokens_of_step_by_step_sampling) {
  uint32_t accepted = 0;
  for (uint64_t round = 0; round < 600; ++round) {
    begin_case(round + 50000);
    const Story story{.vocabulary = 3 + below(60), .seed = round, .spread = real(1.0f, 20.0f)};
    const SamplingParams p = params(story.vocabulary);
    const std::vector<TokenId> prompt = {token(story.vocabulary), token(story.vocabulary)};
    ASSERT_TRUE(sampler_->begin(1, p, kNoSeq).ok());
    std::vector<TokenId> alone = prompt;
    while (alone.size() < 24) {
      const TokenId next = step(story, alone, 2, p);
      if (next == kNoToken) break;
      alone.push_back(next);
    }
    EXPECT_TRUE(sampler_->end(1).ok());
    ASSERT_TRUE(sampler_->begin(1, p, kNoSeq).ok());
    std::vector<TokenId> drafted = prompt;
    while (drafted.size() < 24) {
      std::vector<TokenId> drafts;
      for (uint32_t i = below(5); i > 0 && drafted.size() + drafts.size() < alone.size(); --i) {
        const TokenId right = alone[drafted.size() + drafts.size()];
        drafts.push_back(once_in(5) ? token(story.vocabulary) : right);
      }
      const auto tokens = verify(story, drafted, 2, p, drafts).tokens;
      if (tokens.empty()) break;
      accepted += static_cast<uint32_t>(tokens.size()) - 1;
      drafted.insert(drafted.end(), tokens.begin(), tokens.end());
    }
    EXPECT_TRUE(sampler_->end(1).ok());
    drafted.resize(std::min(drafted.size(), alone.size()));
    ASSERT_EQ(drafted, alone) << round;
  }
  EXPECT_GT(accepted, 3000u);
}

}  // namespace
}  // namespace tenon
