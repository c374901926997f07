// Drafts that form a tree: the path that is accepted, and every number reported for it, is what the
// same drafts as a chain give, and what drawing without drafts gives.
#include <gmock/gmock.h>

#include <random>

#include "tests/support/allocation_count.h"
#include "tests/support/sampler_fixture.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<TokenId>;
constexpr uint32_t kTop = 3;

struct Tree {
  Tokens drafts;
  std::vector<int32_t> parents;

  // The drafts from a root to draft `node`, which is among them.
  Tokens path(int32_t node) const {
    Tokens tokens;
    for (; node >= 0; node = parents[static_cast<size_t>(node)]) {
      tokens.insert(tokens.begin(), drafts[static_cast<size_t>(node)]);
    }
    return tokens;
  }
  bool has(int32_t parent, TokenId token) const {
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (parents[i] == parent && drafts[i] == token) return true;
    }
    return false;
  }
};

struct Judged {
  Tokens tokens;
  std::vector<uint32_t> path;
  std::vector<SampleResult> results;
  std::vector<TokenLogprob> top;
};

class Trees : public StandardFixture {
 protected:
  // Of drafts that are given as a tree, or as a chain where `parents` is empty.
  Judged verify(const Tokens& known, uint32_t prompt, const SamplingParams& params,
                const Tree& tree) {
    const size_t drafts = tree.drafts.size();
    const bool chain = tree.parents.empty();
    std::vector<Tokens> before(drafts + 1, known);
    std::vector<std::vector<float>> logits;
    std::vector<SampleRow> rows;
    for (size_t i = 0; i <= drafts; ++i) {
      const int32_t node = static_cast<int32_t>(i) - 1;
      const Tokens path =
          chain ? Tokens(tree.drafts.begin(), tree.drafts.begin() + (node + 1)) : tree.path(node);
      before[i].insert(before[i].end(), path.begin(), path.end());
      logits.push_back(story_.logits_after(before[i]));
    }
    for (size_t i = 0; i <= drafts; ++i) {
      SampleRow row = row_of(logits[i], params, {});
      row.history = chain ? before[i] : known;
      row.prompt_tokens = prompt;
      row.key.position = static_cast<uint32_t>(before[i].size());
      rows.push_back(row);
    }
    VerifyRows given;
    given.rows = rows;
    given.drafts = tree.drafts;
    given.parents = tree.parents;
    Judged judged;
    judged.results.resize(drafts + 1);
    judged.top.resize((drafts + 1) * kTop);
    judged.path.resize(drafts);
    for (size_t i = 0; i <= drafts; ++i) {
      judged.results[i].top = std::span(judged.top).subspan(i * kTop, kTop);
    }
    VerifyResult result;
    result.tokens = judged.results;
    result.path = judged.path;
    EXPECT_EQ(sampler_->verify({&given, 1}, {&result, 1}).message(), "");
    judged.results.resize(result.count);
    judged.top.resize(result.count * kTop);
    judged.path.resize(result.count == 0 ? 0 : result.count - 1);
    for (const SampleResult& each : judged.results) judged.tokens.push_back(each.token);
    return judged;
  }

  // Every draft follows an earlier one or nothing; two in three are what the target will say there
  // if the drafts before it are right.
  Tree random_tree(const Tokens& known, const Tokens& alone) {
    Tree tree;
    for (uint32_t i = below(14); i > 0; --i) {
      const int32_t parent =
          static_cast<int32_t>(below(static_cast<uint32_t>(tree.drafts.size() + 1))) - 1;
      const size_t place = known.size() + tree.path(parent).size();
      const bool right = place < alone.size() && below(3) > 0;
      const TokenId token = right ? alone[place] : static_cast<TokenId>(below(story_.vocabulary));
      if (tree.has(parent, token)) continue;
      tree.drafts.push_back(token);
      tree.parents.push_back(parent);
    }
    return tree;
  }

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  static std::vector<SamplingParams> wishes() {
    static const TokenId kWord[] = {3, 7};
    static const std::span<const TokenId> kWords[] = {kWord, std::span(kWord).first(1)};
    static const LogitBias kBias[] = {{2, 4.0f}, {5, -3.0f}};
    std::vector<SamplingParams> all(7);
    all[0].temperature = 0.0f;
    all[1].temperature = 0.8f;
    all[2].temperature = 0.0f, all[2].presence_penalty = 1.5f, all[2].repetition_penalty = 1.3f;
    all[3].temperature = 0.8f, all[3].frequency_penalty = 0.7f, all[3].top_p = 0.9f;
    all[3].penalty_last_tokens = 5;
    all[4].temperature = 0.8f, all[4].dry_multiplier = 0.9f, all[4].dry_allowed_length = 1;
    all[4].bad_words = kWords, all[4].logit_bias = kBias;
    all[5].temperature = 0.8f, all[5].watermark_delta = 2.0f, all[5].watermark_context = 2;
    all[6].temperature = 0.8f, all[6].mirostat = 2, all[6].mirostat_tau = 2.0f;
    for (SamplingParams& params : all) params.seed = 17, params.logprobs = kTop;
    return all;
  }

  Story story_{.vocabulary = 12, .seed = 4, .spread = 5.0f};
  std::mt19937 random_{5};
};

TEST_F(Trees, are_walked_along_what_the_target_says) {
  const SamplingParams greedy{.temperature = 0.0f};
  ASSERT_TRUE(sampler_->begin(1, greedy, kNoSeq).ok());
  Tokens said = {1, 2};
  while (said.size() < 5) said.push_back(step(story_, said, 2, greedy));
  const TokenId a = said[2], b = said[3], c = said[4];
  const auto other = [](TokenId token) { return (token + 1) % 12; };
  //  0 other(a)   1 a ── 3 other(b)
  //  2 (b)        └───── 4 b ── 5 other(c)
  const Tree tree{{other(a), a, b, other(b), b, other(c)}, {-1, -1, 0, 1, 1, 4}};
  const Judged judged = verify({1, 2}, 2, greedy, tree);
  EXPECT_THAT(judged.tokens, ElementsAre(a, b, c));
  EXPECT_THAT(judged.path, ElementsAre(1, 4));
}

TEST_F(Trees, give_the_bits_of_their_accepted_path_as_a_chain) {
  uint32_t accepted = 0, side_steps = 0;
  for (const SamplingParams& params : wishes()) {
    for (uint32_t round = 0; round < 40; ++round) {
      const Tokens prompt = {static_cast<TokenId>(below(12)), static_cast<TokenId>(below(12))};
      ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
      Tokens alone = prompt;
      while (alone.size() < 20) alone.push_back(step(story_, alone, 2, params));
      Tokens known = prompt;
      while (known.size() < 16) {
        const Tree tree = random_tree(known, alone);
        const Judged judged = verify(known, 2, params, tree);
        ASSERT_FALSE(judged.tokens.empty());
        Tree chain;
        for (size_t i = 0; i < judged.path.size(); ++i) {
          const int32_t parent = i == 0 ? -1 : static_cast<int32_t>(judged.path[i - 1]);
          ASSERT_EQ(tree.parents[judged.path[i]], parent);
          chain.drafts.push_back(tree.drafts[judged.path[i]]);
          ASSERT_EQ(chain.drafts.back(), judged.tokens[i]);
          side_steps += judged.path[i] != i;
        }
        const int32_t last = judged.path.empty() ? -1 : static_cast<int32_t>(judged.path.back());
        ASSERT_FALSE(tree.has(last, judged.tokens.back())) << "the path goes on";
        const Judged same = verify(known, 2, params, chain);
        ASSERT_EQ(same.tokens, judged.tokens);
        for (size_t i = 0; i < same.tokens.size(); ++i) {
          ASSERT_EQ(same.results[i].logprob, judged.results[i].logprob);
          ASSERT_EQ(same.results[i].rank, judged.results[i].rank);
        }
        for (size_t i = 0; i < same.top.size(); ++i) {
          ASSERT_EQ(same.top[i].token, judged.top[i].token);
          ASSERT_EQ(same.top[i].logprob, judged.top[i].logprob);
        }
        accepted += static_cast<uint32_t>(judged.path.size());
        known.insert(known.end(), judged.tokens.begin(), judged.tokens.end());
      }
      known.resize(std::min(known.size(), alone.size()));
      alone.resize(known.size());
      ASSERT_EQ(known, alone) << "as without drafts";
      ASSERT_TRUE(sampler_->end(1).ok());
    }
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(side_steps, 200u);
}

TEST_F(Trees, are_refused_without_parents_or_without_room) {
  const std::vector<float> logits(12, 0.0f);
  SampleRow row = row_of(logits, {}, {});
  row.seq = 7;
  const SampleRow rows[] = {row, row, row};
  const TokenId drafts[] = {3, 4};
  const int32_t parents[] = {-1, -1};
  SampleResult results[3];
  uint32_t path[2];
  const auto message = [&](size_t known_parents, size_t room) {
    VerifyRows given;
    given.rows = rows;
    given.drafts = drafts;
    given.parents = std::span(parents).first(known_parents);
    VerifyResult result;
    result.tokens = results;
    result.path = std::span(path).first(room);
    return std::string(sampler_->verify({&given, 1}, {&result, 1}).message());
  };
  EXPECT_EQ(message(1, 2),
            "the drafts of sequence 7 form a tree in which some have no parent – name one for each "
            "draft, -1 for roots");
  EXPECT_EQ(message(2, 1),
            "the drafts of sequence 7 form a tree whose path has no room – make room for as many "
            "as there are drafts");
  EXPECT_EQ(message(2, 2), "");
}

TEST_F(Trees, are_verified_without_allocating_once_warm) {
  if (!test::counts_allocations()) GTEST_SKIP() << "nobody can count under this sanitizer";
  SamplingParams params{.temperature = 0.8f, .presence_penalty = 0.5f};
  params.dry_multiplier = 0.5f;
  ASSERT_TRUE(sampler_->begin(1, params, kNoSeq).ok());
  const std::vector<float> logits = random_logits(50, 3, 4.0f);
  Tokens known(40, 1);
  const TokenId drafts[] = {3, 4, 5};
  const int32_t parents[] = {-1, -1, 1};
  uint64_t before = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    std::vector<SampleRow> rows(4, row_of(logits, params, {.history = {}, .position = i}));
    for (SampleRow& row : rows) row.history = std::span(known).first(20 + i);
    VerifyRows given;
    given.rows = rows;
    given.drafts = drafts;
    given.parents = parents;
    SampleResult results[4];
    uint32_t path[3];
    VerifyResult result;
    result.tokens = results;
    result.path = path;
    before = test::allocation_count();
    ASSERT_TRUE(sampler_->verify({&given, 1}, {&result, 1}).ok());
    ASSERT_TRUE(i == 0 || test::allocation_count() == before) << i;
  }
}

}  // namespace
}  // namespace tenon
