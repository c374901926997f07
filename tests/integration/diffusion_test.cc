// Diffusion models on every executor: a text is seen as a whole, and neither threads nor who else
// is in a step changes a bit.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"

namespace tenon::test {
namespace {

class Diffusion : public testing::TestWithParam<std::tuple<ExecutorCase, std::string>> {
 protected:
  void SetUp() override {
    auto model = open_model(golden_models() + std::get<1>(GetParam()));
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = *std::move(model);
    shape_ = std::make_unique<ModelShapeStorage>(model_->plan, 128);
  }
  Logits whole(const std::vector<TokenId>& tokens, uint32_t threads, uint32_t block_tokens) const {
    ExecutorCase executor = std::get<0>(GetParam());
    executor.threads = threads;
    const auto rows = static_cast<uint32_t>(tokens.size());
    return Loaded(executor, *model_, shape_->shape(), {.block_tokens = block_tokens})
        ->feed(tokens, {rows});
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelShapeStorage> shape_;
  const std::vector<TokenId> tokens_ = some_tokens(40, 97);
};

INSTANTIATE_TEST_SUITE_P(Models, Diffusion,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::Values("llada", "llada_grouped")),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
                         });

TEST_P(Diffusion, threads_and_blocks_of_the_cache_change_no_bit) {
  const Logits expected = whole(tokens_, 2, 16);
  EXPECT_EQ(whole(tokens_, 1, 16), expected);
  EXPECT_EQ(whole(tokens_, 3, 7), expected);
}

TEST_P(Diffusion, others_in_a_step_change_no_bit) {
  const Logits expected = whole(tokens_, 2, 16);
  Loaded executor(std::get<0>(GetParam()), *model_, shape_->shape());
  const size_t other = executor->begin(), own = executor->begin(), third = executor->begin();
  const Logits all = executor->step(
      {{other, some_tokens(23, 97, 7)}, {own, tokens_}, {third, some_tokens(31, 97, 9)}});
  ASSERT_EQ(all.size(), 23u + 40u + 31u);
  EXPECT_EQ(Logits(all.begin() + 23, all.begin() + 63), expected);
}

TEST_P(Diffusion, the_first_row_sees_the_last) {
  std::vector<TokenId> other = tokens_;
  other.back() = (other.back() + 1) % 97;
  EXPECT_NE(whole(other, 2, 16).front(), whole(tokens_, 2, 16).front());
}

}  // namespace
}  // namespace tenon::test
