// Trees of drafts, verified by rejection: what comes out is distributed as without drafts, at every
// level, with every stage of the sampler; and more is kept than of a chain.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "tests/support/sampler_fixture.h"

namespace tenon {
namespace {

using Tokens = std::vector<TokenId>;
using Shares = std::vector<float>;

constexpr uint32_t kVocabulary = 8;
constexpr uint32_t kTrials = 40000;
const Tokens kKnown = {1, 2};

struct RejectedTree {
  Tokens drafts;
  std::vector<int32_t> parents;
  std::vector<float> probs;  // [drafts, kVocabulary]
};

// How often each token came after each beginning of an answer.
using Counts = std::map<Tokens, std::array<uint32_t, kVocabulary>>;

// Pearson's statistic of what came after one beginning, and the number of tokens less one that
// could have come.
std::pair<double, uint32_t> chi_square(const std::array<uint32_t, kVocabulary>& seen,
                                       const Shares& shares) {
  double trials = 0.0, sum = 0.0;
  uint32_t possible = 0;
  for (const uint32_t count : seen) trials += count;
  for (uint32_t token = 0; token < kVocabulary; ++token) {
    const double wanted = static_cast<double>(shares[token]) * trials;
    if (shares[token] == 0.0f) {
      EXPECT_EQ(seen[token], 0u) << token << " cannot come";
      continue;
    }
    ++possible;
    sum += (seen[token] - wanted) * (seen[token] - wanted) / wanted;
  }
  return {sum, possible - 1};
}

class RejectedTrees : public StandardFixture {
 protected:
  // The drafter says partly what the target says.
  std::vector<float> draft_logits(const Tokens& before) const {
    const Story other{.vocabulary = kVocabulary, .seed = 5, .spread = 4.0f};
    std::vector<float> logits = other.logits_after(before);
    const std::vector<float> wanted = target_.logits_after(before);
    for (uint32_t i = 0; i < kVocabulary; ++i) logits[i] += 0.5f * (wanted[i] - logits[i]);
    return logits;
  }
  const std::vector<float>& logits_after(const Tokens& path) {
    const auto [found, is_new] = logits_.try_emplace(path);
    if (is_new) found->second = target_.logits_after(behind(path));
    return found->second;
  }
  const Shares& target_shares(const Tokens& path) {
    const auto [found, is_new] = target_shares_.try_emplace(path);
    if (is_new) found->second = shares_of(logits_after(path), path);
    return found->second;
  }
  const Shares& draft_shares(const Tokens& path) {
    const auto [found, is_new] = draft_shares_.try_emplace(path);
    if (is_new) found->second = shares_of(draft_logits(behind(path)), path);
    return found->second;
  }
  static Tokens behind(const Tokens& path) {
    Tokens all = kKnown;
    all.insert(all.end(), path.begin(), path.end());
    return all;
  }
  Shares shares_of(const std::vector<float>& logits, const Tokens& path) {
    const Tokens before = behind(path);
    SampleRow row = row_of(logits, params_, {});
    row.history = before;
    row.prompt_tokens = 1;
    Shares shares(kVocabulary);
    EXPECT_TRUE(sampler_->distribution(row, shares).ok());
    return shares;
  }

  // Adds up to `width` tokens after `path`, drawn without replacement.
  void draw_siblings(RejectedTree& tree, int32_t parent, const Tokens& path, uint32_t width) {
    Shares left = draft_shares(path);
    RandomKey key{params_.seed, 0, static_cast<uint32_t>(kKnown.size() + path.size())};
    for (uint32_t round = 0; round < width; ++round) {
      double total = 0.0;
      for (const float share : left) total += static_cast<double>(share);
      if (!(total > 0.0)) return;
      for (float& share : left) share = static_cast<float>(share / total);
      double u = sdk::uniform(key, RandomPurpose::draft, round);
      TokenId drawn = kNoToken;
      for (uint32_t id = 0; id < kVocabulary && (drawn == kNoToken || u >= 0.0); ++id) {
        if (left[id] > 0.0f) drawn = static_cast<TokenId>(id), u -= static_cast<double>(left[id]);
      }
      tree.drafts.push_back(drawn);
      tree.parents.push_back(parent);
      tree.probs.insert(tree.probs.end(), left.begin(), left.end());
      left[static_cast<size_t>(drawn)] = 0.0f;
    }
  }
  static Tokens path_to(const RejectedTree& tree, int32_t node) {
    Tokens path;
    for (; node >= 0; node = tree.parents[static_cast<size_t>(node)]) {
      path.insert(path.begin(), tree.drafts[static_cast<size_t>(node)]);
    }
    return path;
  }
  RejectedTree draw_tree(const std::vector<uint32_t>& widths) {
    RejectedTree tree;
    std::vector<int32_t> level = {-1};
    for (const uint32_t width : widths) {
      const size_t first = tree.drafts.size();
      for (const int32_t node : level) draw_siblings(tree, node, path_to(tree, node), width);
      level.clear();
      for (size_t node = first; node < tree.drafts.size(); ++node) {
        level.push_back(static_cast<int32_t>(node));
      }
    }
    return tree;
  }

  Tokens verify(const RejectedTree& tree) {
    std::vector<SampleRow> rows;
    for (int32_t node = -1; node < static_cast<int32_t>(tree.drafts.size()); ++node) {
      const Tokens path = path_to(tree, node);
      SampleRow row = row_of(logits_after(path), params_, {});
      row.history = kKnown;
      row.prompt_tokens = 1;
      row.key.position = static_cast<uint32_t>(kKnown.size() + path.size());
      rows.push_back(row);
    }
    std::vector<SampleResult> results(rows.size());
    std::vector<uint32_t> path(tree.drafts.size());
    const VerifyRows given{rows, tree.drafts, tree.parents, tree.probs.data()};
    VerifyResult out{results, path, 0};
    EXPECT_EQ(sampler_->verify({&given, 1}, {&out, 1}).message(), "");
    Tokens tokens;
    for (uint32_t i = 0; i < out.count; ++i) tokens.push_back(results[i].token);
    for (uint32_t i = 0; i + 1 < out.count; ++i) {
      EXPECT_EQ(tree.drafts[path[i]], tokens[i]);
      EXPECT_EQ(tree.parents[path[i]], i == 0 ? -1 : static_cast<int32_t>(path[i - 1]));
    }
    return tokens;
  }

  // Tokens after each beginning, over many seeds; and how many drafts were kept a step.
  double count(const SamplingParams& params, const std::vector<uint32_t>& widths, Counts& counts) {
    params_ = params;
    logits_.clear();
    target_shares_.clear();
    draft_shares_.clear();
    EXPECT_TRUE(sampler_->begin(1, params_, kNoSeq).ok());
    uint64_t kept = 0;
    for (uint32_t trial = 0; trial < kTrials; ++trial) {
      params_.seed = trial;
      const Tokens tokens = verify(draw_tree(widths));
      EXPECT_FALSE(tokens.empty());
      for (size_t i = 0; i < tokens.size(); ++i) {
        ++counts[Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i))]
                [static_cast<size_t>(tokens[i])];
      }
      kept += tokens.size() - 1;
    }
    return static_cast<double>(kept) / kTrials;
  }
  void expect_the_targets_distribution(const Counts& counts) {
    double sum = 0.0;
    uint32_t freedom = 0, beginnings = 0;
    for (const auto& [path, seen] : counts) {
      uint32_t trials = 0;
      for (const uint32_t each : seen) trials += each;
      if (trials < 800) continue;  // too few for the statistic to mean something
      const auto [one, of] = chi_square(seen, target_shares(path));
      sum += one;
      freedom += of;
      ++beginnings;
    }
    EXPECT_GT(beginnings, 3u);
    // The sum has the mean `freedom` and the variance twice that; five deviations.
    EXPECT_LT(sum, freedom + 5.0 * std::sqrt(2.0 * freedom)) << beginnings << " beginnings";
  }
  void TearDown() override { EXPECT_TRUE(sampler_->end(1).ok()); }

  const Story target_{.vocabulary = kVocabulary, .seed = 3, .spread = 4.0f};
  SamplingParams params_;
  std::map<Tokens, std::vector<float>> logits_;
  std::map<Tokens, Shares> target_shares_, draft_shares_;
};

TEST_F(RejectedTrees, come_out_distributed_as_the_target_whatever_the_widths) {
  for (const std::vector<uint32_t>& widths :
       std::vector<std::vector<uint32_t>>{{1, 1}, {2, 2}, {3, 1}, {8}}) {
    SCOPED_TRACE(widths.size() * 100 + widths[0]);
    Counts counts;
    count({.temperature = 1.0f}, widths, counts);
    expect_the_targets_distribution(counts);
  }
}

TEST_F(RejectedTrees, come_out_so_with_every_stage_of_the_sampler) {
  std::vector<SamplingParams> all(5, {.temperature = 0.8f});
  all[0].top_k = 4;
  all[1].top_p = 0.8f;
  all[1].min_p = 0.05f;
  all[2].repetition_penalty = 1.3f;
  all[2].presence_penalty = 0.7f;
  all[2].frequency_penalty = 0.4f;
  all[3].typical_p = 0.85f;
  all[3].dry_multiplier = 0.8f;
  all[3].dry_allowed_length = 1;
  all[4].dynamic_temperature_range = 0.4f;
  all[4].top_n_sigma = 1.5f;
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    Counts counts;
    count(all[i], {2, 2}, counts);
    expect_the_targets_distribution(counts);
  }
}

TEST_F(RejectedTrees, keep_more_than_chains_do) {
  Counts counts;
  const double chain = count({.temperature = 1.0f}, {1, 1}, counts);
  const double pair = count({.temperature = 1.0f}, {2, 1}, counts);
  EXPECT_GT(pair, chain + 0.1);
  // Every token of the vocabulary is among the drafts: one of them is always right.
  EXPECT_DOUBLE_EQ(count({.temperature = 1.0f}, {8}, counts), 1.0);
}

TEST_F(RejectedTrees, survive_probabilities_that_are_none) {
  params_ = {.temperature = 1.0f};
  ASSERT_TRUE(sampler_->begin(1, params_, kNoSeq).ok());
  for (const float bad : {0.0f, kNan, -1.0f, kInf, 5.0f}) {
    RejectedTree tree = draw_tree({2, 2});
    for (float& share : tree.probs) share = bad;
    for (const TokenId token : verify(tree))
      EXPECT_TRUE(token >= 0 && token < TokenId{kVocabulary});
  }
}

}  // namespace
}  // namespace tenon
