// What rows of a step may be besides chains of tokens: trees of drafts, rows that enter as they
// are, rows whose hidden states are handed out, rows that two attention kernels share.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/model/tensors/weight_rows.h"
#include "tests/support/linear/plain_kernels.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

FlatConfig windowed_config() {
  FlatConfig config = tiny_config();
  config.window_tokens = {0, 5};
  return config;
}

class TreeTest : public testing::TestWithParam<ExecutorCase> {
 protected:
  TreeTest() : model_(make_tiny_model({.config = windowed_config()})), shape_(model_->plan, 64) {}

  std::vector<TokenId> path_to(const StepDriver::Tree& tree, int32_t row) const {
    std::vector<TokenId> path;
    for (; row >= 0; row = tree.parents[static_cast<size_t>(row)]) {
      path.insert(path.begin(), tree.tokens[static_cast<size_t>(row)]);
    }
    return path;
  }

  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
  const std::vector<TokenId> prompt_ = some_tokens(14, 61);
};
std::vector<ExecutorCase> cases_with_trees() {
  std::vector<ExecutorCase> cases = executor_cases();
  std::erase_if(cases, [](const ExecutorCase& executor) {
    return executor.kind == ExecutorCase::Kind::cpu_plain;  // refuses trees
  });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Executors, TreeTest, testing::ValuesIn(cases_with_trees()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(TreeTest, each_row_has_the_logits_of_its_path_as_a_chain) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::i4}) {
    LoadOptions options;
    options.kv_dtype = dtype;
    options.block_tokens = 4;
    Loaded executor(GetParam(), *model_, shape_.shape(), options);
    const size_t sequence = executor->begin();
    executor->step({{sequence, prompt_}});
    const StepDriver::Tree tree{sequence, some_tokens(9, 61, 5), {-1, 0, 0, 1, 1, 2, 5, 6, 4}};
    const Logits rows = executor->step(tree);
    ASSERT_EQ(rows.size(), 9u);
    for (int32_t row = 0; row < 9; ++row) {
      executor->roll_back(sequence, 14);
      const std::vector<TokenId> path = path_to(tree, row);
      EXPECT_EQ(rows[static_cast<size_t>(row)], executor->step({{sequence, path}}).back())
          << "row " << row << " " << dtype_name(dtype);
    }
  }
}

TEST_P(TreeTest, a_sequence_goes_on_behind_an_accepted_path) {
  LoadOptions options;
  options.block_tokens = 4;
  Loaded executor(GetParam(), *model_, shape_.shape(), options);
  const size_t sequence = executor->begin();
  executor->step({{sequence, prompt_}});
  const StepDriver::Tree tree{sequence, some_tokens(6, 61, 5), {-1, 0, 0, 2, 2, 4}};
  executor->step(tree);
  executor->keep_path(sequence, 14, {0, 2, 4, 5});
  const Logits behind = executor->step({{sequence, {7, 8}}});

  const size_t chain = executor->begin();
  std::vector<TokenId> text = prompt_;
  const std::vector<TokenId> path = path_to(tree, 5);
  text.insert(text.end(), path.begin(), path.end());
  executor->step({{chain, text}});
  EXPECT_EQ(behind, executor->step({{chain, {7, 8}}}));
}

class HiddenTest : public TreeTest {};
INSTANTIATE_TEST_SUITE_P(Executors, HiddenTest, testing::ValuesIn(executor_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(HiddenTest, wanted_rows_are_handed_out_behind_wanted_layers) {
  Loaded executor(GetParam(), *model_, shape_.shape());
  executor->want_hidden({2, 5, 13}, {0, 1, 2});
  const Logits all = executor->step({{executor->begin(), prompt_}});
  const std::vector<Logits> hidden = executor->hidden();
  ASSERT_EQ(hidden.size(), 3u);
  for (const Logits& layer : hidden) ASSERT_EQ(layer.size(), 3u);
  EXPECT_NE(hidden[0], hidden[1]);

  // The same whatever else is wanted, and however the prompt is cut; logits do not notice.
  const size_t cut = executor->begin();
  executor->want_hidden({}, {});
  executor->step({{cut, {prompt_.begin(), prompt_.begin() + 5}}}, StepDriver::Want::none);
  executor->want_hidden({0}, {1, 2});
  const Logits last =
      executor->step({{cut, {prompt_.begin() + 5, prompt_.end()}}}, StepDriver::Want::last);
  EXPECT_EQ(last.back(), all.back());
  ASSERT_EQ(executor->hidden().size(), 2u);
  EXPECT_EQ(executor->hidden()[0], (Logits{hidden[1][1]}));
  EXPECT_EQ(executor->hidden()[1], (Logits{hidden[2][1]}));
  executor->want_hidden({0}, {0, 2});
  executor->roll_back(cut, 13);
  executor->step({{cut, {prompt_.back()}}}, StepDriver::Want::none);
  EXPECT_EQ(executor->hidden()[0], (Logits{hidden[0][2]}));
  EXPECT_EQ(executor->hidden()[1], (Logits{hidden[2][2]}));
}

// The head's product with what the final norm made is the logits.
TEST_P(HiddenTest, behind_the_final_norm_stands_what_the_head_multiplies) {
  Loaded executor(GetParam(), *model_, shape_.shape());
  executor->want_hidden({13}, {2});
  const Row logits = executor->step({{executor->begin(), prompt_}}, StepDriver::Want::last)[0];
  const Row& hidden = executor->hidden()[0][0];
  const auto* head = static_cast<const float*>(model_->head.parts[0].data);
  for (size_t n = 0; n < logits.size(); n += 7) {
    double sum = 0;
    for (size_t k = 0; k < hidden.size(); ++k)
      sum += double{hidden[k]} * head[n * hidden.size() + k];
    EXPECT_NEAR(logits[n], sum, 1e-4) << n;
  }
}

class InputsTest : public TreeTest {};
INSTANTIATE_TEST_SUITE_P(Executors, InputsTest, testing::ValuesIn(executor_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(InputsTest, a_row_may_enter_as_it_is_in_place_of_an_embedded_token) {
  Loaded executor(GetParam(), *model_, shape_.shape());
  const Logits expected = executor->step({{executor->begin(), prompt_}});
  std::vector<TokenId> tokens = prompt_;
  std::vector<float> rows(prompt_.size() * model_->plan.hidden, NAN);
  for (const size_t row : {size_t{0}, size_t{6}, size_t{7}, size_t{13}}) {
    read_row(model_->embedding, static_cast<uint32_t>(prompt_[row]),
             &rows[row * model_->plan.hidden]);
    tokens[row] = kNoToken;
  }
  executor->give_inputs(rows);
  EXPECT_EQ(executor->step({{executor->begin(), tokens}}), expected);
}

// Notes which sequences it was asked about.
class NotingAttention final : public AttentionKernel {
 public:
  explicit NotingAttention(AttentionKernel& to) : to_(to) {}
  Status bind(const AttentionBinding& binding) noexcept override { return to_.bind(binding); }
  uint64_t plan_bytes(GroupId group) const noexcept override { return to_.plan_bytes(group); }
  uint64_t workspace_bytes(GroupId group) const noexcept override {
    return to_.workspace_bytes(group);
  }
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    if (plan.group == 0) asked.emplace_back(plan.sequences.begin(), plan.sequences.end());
    return to_.plan(plan, out);
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    return to_.run(call, phase, slice);
  }
  std::string_view numerics() const noexcept override {
    return other_bits ? "noting" : to_.numerics();
  }

  std::vector<std::vector<uint32_t>> asked;
  bool other_bits = false;

 private:
  AttentionKernel& to_;
};

class TwoKernelsTest : public TreeTest {};
INSTANTIATE_TEST_SUITE_P(Executors, TwoKernelsTest, testing::ValuesIn(cpu_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(TwoKernelsTest, prompts_go_to_one_and_single_rows_to_the_other_with_the_same_bits) {
  const auto first = make_kernels(GetParam());
  const auto second = make_kernels(GetParam());
  NotingAttention prefill(*first->attention());
  NotingAttention decode(*second->attention());
  const auto executor = make_executor(GetParam());
  LoadOptions options;
  options.attention.prefill = {&prefill, "one"};
  options.attention.decode = {&decode, "two"};
  options.linear = [&](const WeightView&) -> ChosenLinear { return first->linear(); };
  StepDriver two(*executor, *model_, shape_.shape(), options);
  ASSERT_TRUE(two.load_status().ok()) << two.load_status().message();
  Loaded one(GetParam(), *model_, shape_.shape());

  const std::vector<std::vector<StepDriver::Feed>> steps = {
      {{0, prompt_}, {1, {3}}},
      {{0, {4}}, {1, {5}}},
      {{0, {6}}, {1, {7, 8, 9}}, {2, {1, 2}}, {3, {2}}},
      {{1, {6, 3}}},
  };
  for (int i = 0; i < 4; ++i) {
    two.begin();
    one->begin();
  }
  for (const auto& feeds : steps) EXPECT_EQ(two.step(feeds), one->step(feeds));
  using Asked = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(prefill.asked, (Asked{{0}, {1, 2}, {0}}));
  EXPECT_EQ(decode.asked, (Asked{{1}, {0, 1}, {0, 3}}));
  EXPECT_EQ(executor->numerics(), one.executor().numerics());
  decode.other_bits = true;
  const std::string both(first->attention()->numerics());
  EXPECT_NE(executor->numerics().find("prefill=" + both + "+decode=noting"), std::string::npos)
      << executor->numerics();
}

}  // namespace
}  // namespace tenon::test
