// Recurrent layers on every executor: where steps are cut, what else is in them, and which slot a
// state lies in must not change a bit.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"

namespace tenon::test {
namespace {

const std::string kGoldens = golden_models();

class Recurrence : public testing::TestWithParam<std::tuple<ExecutorCase, std::string>> {
 protected:
  void SetUp() override {
    auto model = open_model(kGoldens + std::get<1>(GetParam()));
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = *std::move(model);
    shape_ = std::make_unique<ModelShapeStorage>(model_->plan, 128);
    tokens_ = some_tokens(40, model_->plan.vocabulary);
    others_ = some_tokens(31, model_->plan.vocabulary, 7);
  }
  std::unique_ptr<Loaded> load(uint32_t threads = 2) const {
    ExecutorCase executor = std::get<0>(GetParam());
    executor.threads = threads;
    return std::make_unique<Loaded>(executor, *model_, shape_->shape(),
                                    LoadOptions{.block_tokens = 5});
  }
  // One row of logits a token, computed in one step by a sequence of its own.
  Logits expected(const std::vector<TokenId>& tokens) const {
    auto executor = load();
    return (*executor)->feed(tokens, {static_cast<uint32_t>(tokens.size())});
  }
  static std::vector<TokenId> head(const std::vector<TokenId>& tokens, size_t count) {
    return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
  }
  static std::vector<TokenId> tail(const std::vector<TokenId>& tokens, size_t from) {
    return {tokens.begin() + static_cast<ptrdiff_t>(from), tokens.end()};
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelShapeStorage> shape_;
  std::vector<TokenId> tokens_, others_;
};

INSTANTIATE_TEST_SUITE_P(
    Models, Recurrence,
    testing::Combine(testing::ValuesIn(executor_cases()),
                     testing::Values("mamba", "mamba_biases", "mamba2", "mamba2_groups", "granite4",
                                     "granite4_rope", "granite4_experts", "qwen3_next",
                                     "qwen3_next_biases", "qwen3_5", "qwen3_5_tied", "qwen3_5_moe",
                                     "lfm2", "lfm2_biases", "lfm2_moe", "lfm3", "lfm3_plain",
                                     "kimi_linear", "kimi_linear_ranks", "bailing_hybrid",
                                     "bailing_hybrid_plain", "olmo_hybrid", "olmo_hybrid_still",
                                     "minimax", "nemotron_h", "nemotron_h_latent", "bamba",
                                     "falcon_h1", "falcon_h1_norms", "falcon_h1_biases",
                                     "falcon_h1_norm_after", "jamba", "jamba_dense", "zamba2",
                                     "zamba2_plain", "zamba2_blocks", "xlstm", "xlstm_wide")),
    [](const auto& test) {
      return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
    });

TEST_P(Recurrence, cutting_a_text_changes_no_bit) {
  const Logits whole = expected(tokens_);
  for (const std::vector<uint32_t>& chunks :
       {std::vector<uint32_t>{1}, {2, 1, 3}, {9, 20}, {17, 1, 5}}) {
    EXPECT_EQ((*load())->feed(tokens_, chunks), whole) << chunks.front();
  }
}

TEST_P(Recurrence, a_row_has_its_bits_whatever_else_is_in_the_step) {
  const Logits first = expected(tokens_), second = expected(others_);
  auto executor = load();
  const size_t a = (*executor)->begin(), b = (*executor)->begin();
  Logits of_a, of_b;
  const auto add = [](Logits& to, const Logits& rows, size_t from, size_t count) {
    const auto begin = rows.begin() + static_cast<ptrdiff_t>(from);
    to.insert(to.end(), begin, begin + static_cast<ptrdiff_t>(count));
  };
  // One begins while the other goes on, token by token or in chunks.
  add(of_a, (*executor)->step({{a, head(tokens_, 5)}}), 0, 5);
  size_t at_a = 5, at_b = 0;
  while (at_a < tokens_.size() && at_b < others_.size()) {
    const size_t rows_b = std::min<size_t>(3, others_.size() - at_b);
    const Logits rows =
        (*executor)->step({{a, {tokens_[at_a]}}, {b, head(tail(others_, at_b), rows_b)}});
    add(of_a, rows, 0, 1);
    add(of_b, rows, 1, rows_b);
    ++at_a;
    at_b += rows_b;
  }
  EXPECT_EQ(of_b, second);
  EXPECT_EQ(of_a, Logits(first.begin(), first.begin() + static_cast<ptrdiff_t>(of_a.size())));
}

TEST_P(Recurrence, rejected_drafts_leave_no_trace) {
  const Logits whole = expected(tokens_);
  auto executor = load();
  const size_t sequence = (*executor)->begin();
  (*executor)->step({{sequence, head(tokens_, 12)}});
  // Of a known token and four drafts, the first two drafts are what comes.
  const std::vector<TokenId> step{tokens_[12], tokens_[13], tokens_[14], 3, 4};
  const Logits rows = (*executor)->step({{sequence, step}});
  EXPECT_EQ(rows[2], whole[14]);
  (*executor)->roll_back(sequence, 15);
  const Logits rest = (*executor)->step({{sequence, tail(tokens_, 15)}});
  EXPECT_EQ(rest, Logits(whole.begin() + 15, whole.end()));
}

TEST_P(Recurrence, forks_go_on_from_one_state_without_disturbing_it) {
  std::vector<TokenId> other = head(tokens_, 10);
  other.insert(other.end(), others_.begin(), others_.end());
  const Logits first = expected(tokens_), second = expected(other);
  auto executor = load();
  const size_t parent = (*executor)->begin();
  (*executor)->step({{parent, head(tokens_, 10)}});
  const size_t child = (*executor)->fork(parent, 10);
  const Logits both = (*executor)->step({{parent, {tokens_[10]}}, {child, {other[10]}}});
  EXPECT_EQ(both[0], first[10]);
  EXPECT_EQ(both[1], second[10]);
  const Logits rest = (*executor)->step({{child, tail(other, 11)}, {parent, tail(tokens_, 11)}},
                                        StepDriver::Want::last);
  EXPECT_EQ(rest[0], second.back());
  EXPECT_EQ(rest[1], first.back());
}

TEST_P(Recurrence, the_number_of_threads_changes_no_bit) {
  const Logits whole = expected(tokens_);
  for (const uint32_t threads : {1u, 3u}) {
    EXPECT_EQ((*load(threads))->feed(tokens_, {23, 1, 4}), whole) << threads;
  }
}

TEST_P(Recurrence, hidden_states_are_those_behind_each_layer) {
  auto executor = load();
  const auto layers = static_cast<LayerId>(model_->plan.layers.size());
  (*executor)->want_hidden({1, 4}, {0, layers - 1, layers});
  const size_t sequence = (*executor)->begin();
  (*executor)->step({{sequence, head(tokens_, 6)}}, StepDriver::Want::last);
  const std::vector<Logits> together = (*executor)->hidden();
  auto again = load();
  (*again)->want_hidden({0}, {0, layers - 1, layers});
  const size_t alone = (*again)->begin();
  for (size_t token = 0; token < 6; ++token) {
    (*again)->step({{alone, {tokens_[token]}}}, StepDriver::Want::none);
    for (size_t layer = 0; layer < 3; ++layer) {
      if (token != 1 && token != 4) continue;
      EXPECT_EQ((*again)->hidden()[layer][0], together[layer][token == 1 ? 0 : 1]) << layer;
    }
  }
}

}  // namespace
}  // namespace tenon::test
