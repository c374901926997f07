// Trees of drafts from a second model: which tokens, in which order, from which passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>
#include <tenon/sdk/drafter/kept_path.h>
#include <tenon/sdk/drafter/tree_drafts.h>

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using sdk::TreeDrafts;
using testing::ElementsAre;
using Tokens = std::vector<TokenId>;
using Parents = std::vector<int32_t>;
constexpr uint32_t kVocabulary = 8, kHidden = 2;

// After token t, the token t + 1 has the logit `first`, t + 2 `second`, all others 0. Its state
// after a token is that token, twice.
class Runner final : public ModelRunner, public ModelTreeRunner {
 public:
  struct Pass {
    Tokens tokens;
    Parents parents;
    std::vector<uint8_t> wanted;
    std::vector<float> inputs;  // the first number of each node's
  };

  uint32_t vocabulary() const noexcept override { return kVocabulary; }
  uint32_t context_tokens() const noexcept override { return 100; }
  uint32_t computed(SeqId, std::span<const TokenId>) noexcept override { return 0; }
  Status forward(std::span<const RunnerRow>, std::span<const float*>,
                 std::span<const float*>) noexcept override {
    return {};
  }
  Status draw(std::span<const RunnerRow> rows, std::span<const float* const> logits,
              std::span<RunnerDraw> draws) noexcept override {
    for (size_t i = 0; i < rows.size(); ++i) {
      draws[i].token = (rows[i].history.back() + drawn) % TokenId{kVocabulary};
      const bool banned = std::isinf(logits[i][draws[i].token]);
      if (banned && !recorded) draws[i].token = kNoToken;
      // Of a row in which it leads by little.
      const float lead = logits[i][draws[i].token];
      if (by_chance && !banned && lead > 0.0f && lead < 1.0f) draws[i].token = 0;
      if (banned) continue;
      histories.emplace_back(rows[i].history.begin(), rows[i].history.end());
      if (draws[i].probs == nullptr) continue;
      double sum = 0.0;
      for (uint32_t id = 0; id < kVocabulary; ++id) sum += std::exp(double{logits[i][id]});
      for (uint32_t id = 0; id < kVocabulary; ++id) {
        draws[i].probs[id] = static_cast<float>(std::exp(double{logits[i][id]}) / sum);
      }
    }
    return {};
  }
  Status forward_tree(std::span<const RunnerTree> trees, std::span<const float*> logits,
                      std::span<const float*> hidden) noexcept override {
    passes.emplace_back();
    size_t at = 0;
    for (const RunnerTree& tree : trees) {
      Pass& pass = passes.back().emplace_back();
      pass.tokens.assign(tree.tokens.begin(), tree.tokens.end());
      pass.parents.assign(tree.parents.begin(), tree.parents.end());
      pass.wanted.assign(tree.wanted.begin(), tree.wanted.end());
      const auto* inputs = static_cast<const float*>(tree.hidden.data);
      for (size_t node = 0; node < tree.tokens.size(); ++node) {
        if (inputs != nullptr) pass.inputs.push_back(inputs[node * kHidden]);
        if (tree.wanted[node] == 0) continue;
        logits[at] = logits_after(tree.tokens[node]);
        if (!hidden.empty()) hidden[at] = state_after(tree.tokens[node]);
        ++at;
      }
    }
    if (passes.size() == fails_at) return Status::error(StatusCode::failed, "no power");
    return {};
  }

  const float* logits_after(TokenId token) {
    std::vector<float>& row = rows_.emplace_back(kVocabulary, 0.0f);
    row[static_cast<size_t>(token + 1) % kVocabulary] = first;
    row[static_cast<size_t>(token + 2) % kVocabulary] = second;
    return row.data();
  }
  const float* state_after(TokenId token) {
    return rows_.emplace_back(kHidden, static_cast<float>(token)).data();
  }

  float first = 4.0f, second = 3.0f;
  TokenId drawn = 1;      // so many after the token before
  bool recorded = false;  // it is drawn whatever its logit is
  bool by_chance = false;
  size_t fails_at = 0;
  std::vector<std::vector<Pass>> passes;  // [passes][sequences]
  std::vector<Tokens> histories;          // of draws

 private:
  std::deque<std::vector<float>> rows_;
};

class DraftTree : public testing::Test {
 protected:
  DraftTree() {
    static ModelRunner* runner;
    static ModelTreeRunner* trees;
    runner = &runner_;
    trees = &runner_;
    host_.services.extension = [](void*, std::string_view id) noexcept -> const void* {
      if (id == kModelRunner) return &runner;
      return id == kModelRunnerTree ? &trees : nullptr;
    };
  }

  // Of a sequence that knows 9 and 0, so that the likeliest text is 1 2 3 …
  DraftOut draft(const std::string& shape, uint32_t slots, uint64_t hidden = 0,
                 bool by_rejection = false) {
    text_ = {9, 0};
    text_.resize(2 + slots, kNoToken);
    parents_.assign(slots, -7);
    probs_.assign(slots * kVocabulary, 0.0f);
    const DraftRequest request{.seq = 3,
                               .history = std::span<const TokenId>(text_).first(2),
                               .max_tokens = slots,
                               .key = {.seed = seed_, .sample = 0, .position = 2}};
    DraftOut out;
    out.tokens = std::span(text_).subspan(2);
    out.parents = parents_;
    out.probs = by_rejection ? probs_.data() : nullptr;
    TreeDrafts trees(host_.services, sdk::read_tree_shape(shape, slots), hidden);
    const uint32_t who = 0;
    const float *logits = runner_.logits_after(0), *state = runner_.state_after(0);
    status_ = trees.draft({&request, 1}, {{&who, 1}, {&logits, 1}, {&state, 1}, 0}, {&out, 1});
    return out;
  }
  static Tokens tokens(const DraftOut& out) {
    return {out.tokens.begin(), out.tokens.begin() + out.count};
  }
  static Parents parents(const DraftOut& out) {
    return {out.parents.begin(), out.parents.begin() + out.count};
  }
  static std::string refusal(const std::string& shape) {
    try {
      return sdk::read_tree_shape(shape, 4).is_tree() ? "a tree" : "a chain";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  TestHost host_;
  Runner runner_;
  Tokens text_;
  Parents parents_;
  std::vector<float> probs_;
  uint64_t seed_ = 1;
  Status status_;
};

TEST_F(DraftTree, has_the_likeliest_tokens_after_each_node_the_best_paths_first) {
  const DraftOut out = draft("2,1", 4);
  EXPECT_TRUE(out.is_tree);
  EXPECT_FALSE(out.has_probs);
  EXPECT_THAT(tokens(out), ElementsAre(1, 2, 2, 3));
  EXPECT_THAT(parents(out), ElementsAre(-1, 0, -1, 2));
}

TEST_F(DraftTree, keeps_the_likeliest_where_there_is_not_room_for_all) {
  const DraftOut out = draft("2,2,2", 4);
  // 1, 1 2 and 1 2 3 are likelier than 2.
  EXPECT_THAT(tokens(out), ElementsAre(1, 2, 3, 2));
  EXPECT_THAT(parents(out), ElementsAre(-1, 0, 1, -1));
}

TEST_F(DraftTree, brings_the_rows_on_the_way_to_each_level) {
  draft("2,1,1", 6, kHidden);
  ASSERT_EQ(runner_.passes.size(), 2u) << "nothing follows the last level";
  const Runner::Pass& first = runner_.passes[0][0];
  EXPECT_THAT(first.tokens, ElementsAre(1, 2));
  EXPECT_THAT(first.parents, ElementsAre(-1, -1));
  EXPECT_THAT(first.wanted, ElementsAre(1, 1));
  EXPECT_THAT(first.inputs, ElementsAre(0, 0)) << "the state after what is known";
  const Runner::Pass& second = runner_.passes[1][0];
  EXPECT_THAT(second.tokens, ElementsAre(1, 2, 2, 3));
  EXPECT_THAT(second.parents, ElementsAre(-1, -1, 0, 1));
  EXPECT_THAT(second.wanted, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(second.inputs, ElementsAre(0, 0, 1, 2)) << "those after the nodes before";
}

TEST_F(DraftTree, draws_after_the_whole_text_of_each_path) {
  draft("2,1,1", 6);
  EXPECT_THAT(runner_.histories,
              ElementsAre(Tokens{9, 0}, Tokens{9, 0}, Tokens{9, 0}, Tokens{9, 0, 1},
                          Tokens{9, 0, 2}, Tokens{9, 0, 1, 2}, Tokens{9, 0, 2, 3}));
}

TEST_F(DraftTree, grows_long_where_the_model_is_sure_and_wide_where_it_is_not) {
  runner_.first = 20.0f;
  runner_.second = 0.0f;
  const DraftOut sure = draft("grow", 5);
  EXPECT_THAT(tokens(sure), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(parents(sure), ElementsAre(-1, 0, 1, 2, 3));
  runner_.first = 0.1f;
  runner_.second = 0.0f;
  EXPECT_THAT(parents(draft("grow", 5)), ElementsAre(-1, -1, -1, -1, -1));
}

// The likeliest token has two thirds of what may follow; where another one was drawn, it shares
// what is left with the rest.
TEST_F(DraftTree, the_others_share_what_the_token_that_was_drawn_leaves) {
  runner_.drawn = 3;
  runner_.by_chance = true;
  const DraftOut out = draft("grow", 4);
  EXPECT_THAT(tokens(out), ElementsAre(3, 6, 1, 1));
  EXPECT_THAT(parents(out), ElementsAre(-1, 0, 1, -1));
}

// What is likely to the drafter is likelier where the likeliest token is taken.
TEST_F(DraftTree, grows_longer_for_a_target_that_takes_the_likeliest_token) {
  runner_.first = 2.0f;
  runner_.second = 1.0f;
  EXPECT_THAT(parents(draft("grow", 3)), ElementsAre(-1, 0, 1));
  runner_.by_chance = true;
  EXPECT_THAT(parents(draft("grow", 3)), ElementsAre(-1, 0, -1));
}

TEST_F(DraftTree, is_a_chain_where_what_is_drawn_does_not_follow_from_logits) {
  runner_.drawn = 3;
  runner_.first = runner_.second = 0.0f;
  runner_.recorded = true;
  const DraftOut grown = draft("grow", 5);
  EXPECT_THAT(tokens(grown), ElementsAre(3, 6, 1, 4, 7));
  EXPECT_THAT(parents(grown), ElementsAre(-1, 0, 1, 2, 3));
  EXPECT_THAT(tokens(draft("2,2,1", 10)), ElementsAre(3, 6, 1));
}

TEST_F(DraftTree, gives_what_each_sibling_was_drawn_from_where_drafts_are_judged_by_rejection) {
  const DraftOut out = draft("3,1", 6, 0, true);
  ASSERT_TRUE(out.has_probs);
  ASSERT_EQ(out.count, 6u);
  EXPECT_THAT(parents(out), ElementsAre(-1, -1, -1, 0, 1, 2)) << "in the order of drawing";
  for (uint32_t draft = 0; draft < 6; ++draft) {
    const std::span<const float> row = std::span(probs_).subspan(draft * kVocabulary, kVocabulary);
    double sum = 0.0;
    for (const float share : row) sum += double{share};
    EXPECT_NEAR(sum, 1.0, 1e-5);
    EXPECT_GT(row[static_cast<size_t>(out.tokens[draft])], 0.0f);
    for (uint32_t before = 0; before < draft && draft < 3; ++before) {
      EXPECT_EQ(row[static_cast<size_t>(out.tokens[before])], 0.0f) << "was drawn before";
    }
  }
}

// Whether a token is proposed must not depend on which it is.
TEST_F(DraftTree, proposes_as_many_drawn_siblings_as_there_is_room_for_in_their_order) {
  for (seed_ = 0; seed_ < 20; ++seed_) {
    const DraftOut out = draft("3,2", 5, 0, true);
    EXPECT_THAT(parents(out), ElementsAre(-1, -1, -1, 0, 0)) << seed_;
  }
}

TEST_F(DraftTree, is_verified_exactly_where_nothing_else_can_be_drawn) {
  runner_.first = 200.0f;
  const DraftOut out = draft("2,1", 4, 0, true);
  EXPECT_FALSE(out.has_probs);
  EXPECT_EQ(out.count, 4u);
}

TEST_F(DraftTree, passes_a_failure_of_the_model_on) {
  runner_.fails_at = 2;
  draft("2,1,1", 6);
  EXPECT_EQ(status_.message(), "no power");
}

TEST_F(DraftTree, is_read_from_widths) {
  EXPECT_EQ(sdk::read_tree_shape("2,2,1", 4).nodes, 2u + 4 + 4);
  EXPECT_EQ(sdk::read_tree_shape("grow", 9).nodes, 9u);
  EXPECT_EQ(sdk::read_tree_shape("32", 4).nodes, 32u);
  EXPECT_EQ(refusal(""), "a chain");
  const std::string advice =
      " is no width from 1 to 32; write widths by level with commas, as \"2,2,1\", or \"grow\"";
  EXPECT_EQ(refusal("2 2"), "drafter.options.tree is \"2 2\", where \"2 2\"" + advice);
  EXPECT_EQ(refusal("-1"), "drafter.options.tree is \"-1\", where \"-1\"" + advice);
  EXPECT_EQ(refusal("99999999999"),
            "drafter.options.tree is \"99999999999\", where \"99999999999\"" + advice);
  EXPECT_EQ(
      refusal("8,8"),
      "drafter.options.tree is \"8,8\", which are more than the 32 tokens that a sequence can "
      "be drafted at a time; write smaller widths, or \"grow\"");
}

TEST_F(DraftTree, needs_a_host_that_computes_trees) {
  TestHost old;
  try {
    TreeDrafts(old.services, sdk::read_tree_shape("2", 4), 0);
    ADD_FAILURE() << "it was made";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "the host computes no trees of drafts (model_runner_tree/1); remove "
                 "drafter.options.tree");
  }
}

TEST(KeptPath, is_told_from_the_text_that_followed) {
  sdk::KeptPaths paths;
  Tokens tokens = {4, 5, 6, 5};
  Parents parents = {-1, -1, 0, 0};
  const Tokens before = {1, 2};
  DraftOut out;
  out.tokens = tokens;
  out.parents = parents;
  out.count = 4;
  paths.note({.seq = 1, .history = before, .max_tokens = 4, .key = {}}, out);
  EXPECT_THAT(paths.kept(1, Tokens{1, 2, 4, 5, 9}, 2), ElementsAre(0, 3));
  EXPECT_THAT(paths.kept(1, Tokens{1, 2, 5, 9}, 1), ElementsAre(1));
  EXPECT_THAT(paths.kept(1, Tokens{1, 2, 9}, 0), ElementsAre());
  EXPECT_THAT(paths.kept(2, Tokens{1, 2, 4}, 1), ElementsAre()) << "another sequence";
}

TEST(PlaceShares, say_how_often_each_draft_of_a_tree_is_kept) {
  sdk::PlaceShares shares;
  EXPECT_FALSE(shares.known());
  const uint32_t first_and_third[] = {0, 2};
  for (int i = 0; i < 400; ++i) shares.learn(4, first_and_third, 0.98);
  EXPECT_GT(shares.share(0), 0.95);
  EXPECT_LT(shares.share(1), 0.05);
  EXPECT_LE(shares.share(2), shares.share(1)) << "none is worth more than the one before it";
  EXPECT_GT(shares.share(3), 0.0);
  EXPECT_NEAR(shares.share(4), 0.8 * shares.share(3), 1e-9) << "never tried";
}

TEST(AdaptiveTrees, take_as_many_places_as_are_worth_their_rows) {
  // A row costs a fifth of a step; the first place is kept nine times in ten, others one in ten.
  sdk::AdaptiveDrafts drafts(true, false);
  drafts.begin(0);
  const DraftRequest request{.seq = 0, .history = {}, .max_tokens = 8, .key = {}};
  uint32_t offered = 0;
  for (uint32_t step = 0; step < 600; ++step) {
    offered = 8;
    drafts.choose({&request, 1}, {&offered, 1});
    if (offered > 0) drafts.granted(offered);
    std::vector<uint32_t> kept;
    if (offered > 0 && step % 10 != 0) kept.push_back(0);
    if (offered > 1 && step % 10 == 5) kept.push_back(1);
    drafts.learn_tree(0, offered, kept);
    const uint32_t rows = 1 + offered;
    drafts.measured({{.step_id = step + 1,
                      .rows = rows,
                      .sequences = 1,
                      .logits_rows = rows,
                      .duration_ns = 1'000'000 + 200'000 * int64_t{rows}},
                     offered,
                     0});
  }
  EXPECT_EQ(offered, 1u);
}

}  // namespace
}  // namespace tenon
