// Attention to positions that an index chooses, on every executor: which rows and chunks are
// computed together must change no bit, and where all positions are chosen the index changes none.
#include <gtest/gtest.h>

#include <algorithm>
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

std::unique_ptr<Model> open_golden(const std::string& name) {
  auto model = open_model(kGoldens + name);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

class Index : public testing::TestWithParam<std::tuple<ExecutorCase, std::string>> {
 protected:
  void SetUp() override {
    model_ = open_golden(std::get<1>(GetParam()));
    ASSERT_NE(model_, nullptr);
    shape_ = std::make_unique<ModelShapeStorage>(model_->plan, 128);
    tokens_ = some_tokens(40, model_->plan.vocabulary);
    others_ = some_tokens(23, model_->plan.vocabulary, 7);
  }
  std::unique_ptr<Loaded> load(DType dtype = DType::f32, uint32_t threads = 2) const {
    ExecutorCase executor = std::get<0>(GetParam());
    executor.threads = threads;
    LoadOptions options;
    options.block_tokens = 5;
    options.kv_dtype = dtype;
    return std::make_unique<Loaded>(executor, *model_, shape_->shape(), options);
  }
  static std::vector<TokenId> part(const std::vector<TokenId>& tokens, size_t from, size_t count) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(from);
    return {begin, begin + static_cast<ptrdiff_t>(count)};
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelShapeStorage> shape_;
  std::vector<TokenId> tokens_, others_;
};

INSTANTIATE_TEST_SUITE_P(Models, Index,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::Values("deepseek_v32", "glm_moe_dsa")),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
                         });

// Chunks that end before rows choose, at the first that does, and behind it.
TEST_P(Index, cutting_a_text_changes_no_bit_in_any_type_of_the_cache) {
  const bool plain = std::get<0>(GetParam()).kind == ExecutorCase::Kind::cpu_plain;
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    if (plain && dtype != DType::f32) continue;  // all that these kernels keep
    const Logits whole = (*load(dtype))->feed(tokens_, {40});
    for (const std::vector<uint32_t>& chunks :
         {std::vector<uint32_t>{1}, {6, 1, 1}, {7, 3}, {17, 1, 5}}) {
      EXPECT_EQ((*load(dtype))->feed(tokens_, chunks), whole)
          << dtype_name(dtype) << " " << chunks.front();
    }
  }
}

TEST_P(Index, the_number_of_threads_changes_no_bit) {
  const Logits whole = (*load())->feed(tokens_, {40});
  for (const uint32_t threads : {1u, 3u}) {
    EXPECT_EQ((*load(DType::f32, threads))->feed(tokens_, {23, 1, 4}), whole) << threads;
  }
}

// One is short enough to see all, the other chooses; then both choose.
TEST_P(Index, a_row_has_its_bits_whatever_else_is_in_the_step) {
  const Logits first = (*load())->feed(tokens_, {40});
  const Logits second = (*load())->feed(others_, {23});
  auto executor = load();
  const size_t a = (*executor)->begin(), b = (*executor)->begin();
  (*executor)->step({{a, part(tokens_, 0, 20)}});
  size_t at_a = 20, at_b = 0;
  while (at_b + 2 <= others_.size() && at_a < tokens_.size()) {
    const Logits rows = (*executor)->step({{b, part(others_, at_b, 2)}, {a, {tokens_[at_a]}}});
    EXPECT_EQ(rows[0], second[at_b]) << at_b;
    EXPECT_EQ(rows[1], second[at_b + 1]) << at_b + 1;
    EXPECT_EQ(rows[2], first[at_a]) << at_a;
    at_b += 2;
    ++at_a;
  }
}

TEST_P(Index, rejected_drafts_and_forks_leave_no_trace) {
  const Logits whole = (*load())->feed(tokens_, {40});
  auto executor = load();
  const size_t sequence = (*executor)->begin();
  (*executor)->step({{sequence, part(tokens_, 0, 12)}});
  (*executor)->step({{sequence, {tokens_[12], tokens_[13], 3, 4}}});
  (*executor)->roll_back(sequence, 14);
  const size_t child = (*executor)->fork(sequence, 10);
  const Logits both = (*executor)->step({{child, {tokens_[10]}}, {sequence, {tokens_[14]}}});
  EXPECT_EQ(both[0], whole[10]);
  EXPECT_EQ(both[1], whole[14]);
}

TEST_P(Index, rows_of_a_tree_choose_along_their_paths) {
  if (std::get<0>(GetParam()).kind == ExecutorCase::Kind::cpu_plain) {
    GTEST_SKIP() << "refuses trees";
  }
  for (const size_t prompt : {3u, 14u}) {
    auto executor = load();
    const size_t sequence = (*executor)->begin();
    (*executor)->step({{sequence, part(tokens_, 0, prompt)}});
    const StepDriver::Tree tree{
        sequence, some_tokens(9, model_->plan.vocabulary, 5), {-1, 0, 0, 1, 1, 2, 5, 6, 4}};
    const Logits rows = (*executor)->step(tree);
    for (int32_t row = 0; row < 9; ++row) {
      std::vector<TokenId> path;
      for (int32_t at = row; at >= 0; at = tree.parents[static_cast<size_t>(at)]) {
        path.insert(path.begin(), tree.tokens[static_cast<size_t>(at)]);
      }
      (*executor)->roll_back(sequence, static_cast<uint32_t>(prompt));
      EXPECT_EQ(rows[static_cast<size_t>(row)], (*executor)->step({{sequence, path}}).back())
          << prompt << " " << row;
    }
  }
}

class IndexOfAll : public testing::TestWithParam<ExecutorCase> {};
INSTANTIATE_TEST_SUITE_P(Executors, IndexOfAll, testing::ValuesIn(executor_cases()),
                         [](const auto& test) { return test.param.name(); });

// The same weights without an index are a DeepSeek-V3.
TEST_P(IndexOfAll, a_choice_of_all_positions_changes_no_bit) {
  const auto model = open_golden("deepseek_v32");
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> tokens = some_tokens(30, model->plan.vocabulary);
  const auto logits = [&](uint32_t chosen) {
    for (LayerPlan& layer : model->plan.layers) {
      layer.index.chosen = chosen;
      if (chosen == 0) layer.index = {};
    }
    const ModelShapeStorage shape(model->plan, 64);
    return Loaded(GetParam(), *model, shape.shape())->feed(tokens, {11, 1, 6});
  };
  const Logits few = logits(7), all = logits(30), without = logits(0);
  EXPECT_EQ(all, without);
  EXPECT_EQ(Logits(few.begin(), few.begin() + 7), Logits(all.begin(), all.begin() + 7));
  EXPECT_NE(few[7], all[7]);
}

}  // namespace
}  // namespace tenon::test
