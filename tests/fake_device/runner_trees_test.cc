// Trees of drafts in the second model: each node has the logits of its path, whatever else is in
// the pass, and what is no tree is refused in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

// Calls the second model with what a test says, for the first request of each step.
class AskingDrafter final : public Drafter {
 public:
  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override {
    for (size_t i = 0; i < requests.size(); ++i) offered[i] = std::min(6u, requests[i].max_tokens);
    return {};
  }
  Status draft(std::span<const DraftRequest> requests, std::span<DraftOut>) noexcept override {
    if (requests[0].max_tokens == 6) ask(requests[0]);
    return {};
  }
  Status accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t) noexcept override {
    return {};
  }
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

  std::function<void(const DraftRequest&)> ask;
};

class RunnerTrees : public testing::Test {
 protected:
  RunnerTrees() {
    options_.second_model = ToyModel{options_.vocabulary, 0, 0, {}, false};
    options_.drafter = &drafter_;
  }
  void run(std::function<void(const DraftRequest&)> ask) {
    drafter_.ask = std::move(ask);
    Rig rig(options_);
    runner_ = &rig.runner();
    rig.submit(greedy_request({1, 2, 3}, 20));
    rig.submit(greedy_request(std::vector<TokenId>(20, 7), 20));
    rig.run();
    EXPECT_EQ(rig.engine().last_fault(), "");
  }
  Status read(const DraftRequest& request) {
    RunnerRow row;
    row.seq = request.seq;
    row.history = request.history;
    const float* logits = nullptr;
    return runner_->forward({&row, 1}, {&logits, 1}, {});
  }
  RunnerTree tree_after(const DraftRequest& request) const {
    RunnerTree tree;
    tree.seq = request.seq;
    tree.history = request.history;
    tree.tokens = tokens_;
    tree.parents = parents_;
    tree.wanted = wanted_;
    return tree;
  }

  RigOptions options_;
  AskingDrafter drafter_;
  DraftRunner* runner_ = nullptr;
  // 4 and 5 follow the history, 6 and 7 follow 4, 6 follows 5.
  std::vector<TokenId> tokens_ = {4, 5, 6, 7, 6};
  std::vector<int32_t> parents_ = {-1, -1, 0, 0, 1};
  std::vector<uint8_t> wanted_ = {0, 1, 1, 1, 1};
};

TEST_F(RunnerTrees, give_each_node_the_logits_of_its_path) {
  uint32_t compared = 0;
  run([&](const DraftRequest& request) {
    ASSERT_EQ(read(request).message(), "");
    const RunnerTree tree = tree_after(request);
    std::vector<const float*> logits(4);
    ASSERT_EQ(runner_->forward_tree({&tree, 1}, logits, {}).message(), "");
    size_t at = 0;
    for (size_t node = 0; node < tokens_.size(); ++node) {
      if (wanted_[node] == 0) continue;
      std::vector<TokenId> text(request.history.begin(), request.history.end());
      if (parents_[node] >= 0) text.push_back(tokens_[static_cast<size_t>(parents_[node])]);
      text.push_back(tokens_[node]);
      const std::vector<float> expected = options_.second_model->next_logits(text);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), logits[at++])) << "node " << node;
      ++compared;
    }
  });
  EXPECT_GT(compared, 20u);
}

TEST_F(RunnerTrees, leave_nothing_that_a_later_chain_would_take_for_its_own) {
  run([&](const DraftRequest& request) {
    ASSERT_EQ(read(request).message(), "");
    const RunnerTree tree = tree_after(request);
    std::vector<const float*> logits(4);
    ASSERT_EQ(runner_->forward_tree({&tree, 1}, logits, {}).message(), "");
    std::vector<TokenId> text(request.history.begin(), request.history.end());
    text.insert(text.end(), {4, 5});
    EXPECT_EQ(runner_->computed(request.seq, text), request.history.size());
  });
}

TEST_F(RunnerTrees, that_are_none_are_refused_in_words) {
  std::vector<std::string> found;
  run([&](const DraftRequest& request) {
    if (!found.empty()) return;
    std::vector<const float*> logits(4);
    const auto message = [&](const RunnerTree& tree, size_t room = 4) {
      const std::span<const float*> out = std::span(logits).first(room);
      found.emplace_back(runner_->forward_tree({&tree, 1}, out, {}).message());
    };
    RunnerTree tree = tree_after(request);
    message(tree);  // before the history was read
    ASSERT_EQ(read(request).message(), "");
    message(tree, 3);
    tree.seq = 77;
    message(tree);
    tree = tree_after(request);
    const std::vector<int32_t> cycle = {-1, 2, 1, 0, 0};
    tree.parents = cycle;
    message(tree);
    tree = tree_after(request);
    tree.parents = std::span(parents_).first(4);
    message(tree);
    const std::vector<TokenId> many(600, 4);
    const std::vector<int32_t> roots(600, -1);
    std::vector<uint8_t> wanted(600, 0);
    std::fill_n(wanted.begin(), 4, uint8_t{1});
    tree.tokens = many;
    tree.parents = roots;
    tree.wanted = wanted;
    message(tree);
  });
  ASSERT_EQ(found.size(), 6u);
  EXPECT_THAT(found[0],
              testing::MatchesRegex(
                  "a tree of sequence 0 follows [0-9]+ tokens of which the draft model has "
                  "read 0 – let it read them first, with ModelRunner::forward"));
  EXPECT_EQ(
      found[1],
      "the draft model was asked for 4 nodes of trees – there is room for the logits of 3 and "
      "the hidden states of 0");
  EXPECT_EQ(found[2],
            "the draft model was asked for sequence 77 – drafts are wanted of none of that number");
  EXPECT_EQ(found[3],
            "node 1 of the tree of sequence 0 follows node 2 – expected an earlier one, or -1 for "
            "the history");
  EXPECT_EQ(found[4],
            "a tree of sequence 0 has 5 tokens, 4 parents and 5 marks of what is wanted – expected "
            "one of each for each node");
  EXPECT_THAT(found[5], testing::MatchesRegex("a tree of sequence 0 has 600 nodes – there is room "
                                              "for [0-9]+"));
}

}  // namespace
}  // namespace tenon
