// Layers with experts: the same bits however a step's rows are cut, and the same choices as the
// oracle's. That the arithmetic is transformers' is the goldens' to show.
#include "core/exec/ref/blocks/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/exec/cpu/blocks/expert_choice.h"
#include "core/model/model.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"

namespace tenon::test {
namespace {

constexpr const char* kModels[] = {"mixtral",
                                   "mixtral_bf16",
                                   "qwen2_moe",
                                   "qwen2_moe_sparse",
                                   "qwen3_moe",
                                   "olmoe_clipped",
                                   "gpt_oss",
                                   "gpt_oss_plain",
                                   "granitemoe",
                                   "granitemoeshared",
                                   "afmoe",
                                   "laguna",
                                   "laguna_stacked",
                                   "mimo_v2",
                                   "mimo_v2_stacked",
                                   "llama4",
                                   "step3p7",
                                   "minimax",
                                   "llama4_interleaved",
                                   "longcat"};

std::unique_ptr<Model> open_golden(const std::string& name) {
  auto model = open_model(golden_models() + name);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

class ExpertsTest : public testing::TestWithParam<ExecutorCase> {};
INSTANTIATE_TEST_SUITE_P(Executors, ExpertsTest, testing::ValuesIn(executor_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(ExpertsTest, rows_have_the_same_bits_alone_in_chunks_and_with_any_number_of_threads) {
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    const auto model = open_golden(name);
    ASSERT_NE(model, nullptr);
    const ModelShapeStorage shape(model->plan, 128);
    const std::vector<TokenId> tokens = some_tokens(45, model->plan.vocabulary);
    const Logits whole = Loaded(GetParam(), *model, shape.shape())->feed(tokens, {45});
    for (const uint32_t threads : {1u, 2u, 5u}) {
      ExecutorCase other = GetParam();
      other.threads = threads;
      EXPECT_EQ(Loaded(other, *model, shape.shape())->feed(tokens, {1}), whole) << threads;
      EXPECT_EQ(Loaded(other, *model, shape.shape())->feed(tokens, {17, 3}), whole) << threads;
    }
  }
}

TEST_P(ExpertsTest, rows_have_the_same_bits_whatever_other_rows_choose) {
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    const auto model = open_golden(name);
    ASSERT_NE(model, nullptr);
    const ModelShapeStorage shape(model->plan, 128);
    std::vector<std::vector<TokenId>> texts;
    for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
      texts.push_back(some_tokens(9 + seed, model->plan.vocabulary, seed));
    }
    const auto batch_of = [&](const std::vector<size_t>& order) {
      Loaded executor(GetParam(), *model, shape.shape());
      std::vector<StepDriver::Feed> feeds;
      for (const size_t text : order) feeds.push_back({executor->begin(), texts[text]});
      const Logits rows = executor->step(feeds);
      std::vector<Logits> apart(texts.size());
      size_t at = 0;
      for (const size_t text : order) {
        apart[text].assign(rows.begin() + static_cast<ptrdiff_t>(at),
                           rows.begin() + static_cast<ptrdiff_t>(at + texts[text].size()));
        at += texts[text].size();
      }
      return apart;
    };
    const std::vector<Logits> together = batch_of({0, 1, 2, 3});
    EXPECT_EQ(batch_of({3, 1, 0, 2}), together);
    for (size_t text = 0; text < texts.size(); ++text) {
      EXPECT_EQ(batch_of({text})[text], together[text]) << text;
    }
  }
}

// Every way to choose, on a model whose layers have it in their plan alone.
std::vector<ExpertsPlan> other_choices(const ExpertsPlan& plan) {
  std::vector<ExpertsPlan> plans;
  for (const ExpertScoring scoring :
       {ExpertScoring::softmax, ExpertScoring::softmax_of_chosen, ExpertScoring::sigmoid}) {
    for (const bool normalised : {false, true}) {
      ExpertsPlan& one = plans.emplace_back(plan);
      one.scoring = scoring;
      one.normalised = normalised;
      one.scale = normalised ? 1.75f : 1.0f;
    }
  }
  plans.emplace_back(plans.back()).score_cap = 0.75f;
  for (const GroupScore score : {GroupScore::best, GroupScore::best_two}) {
    ExpertsPlan& one = plans.emplace_back(plan);
    one.scoring = ExpertScoring::sigmoid;
    one.correction = true;
    one.groups = 3;
    one.groups_chosen = 2;
    one.group_score = score;
  }
  return plans;
}

TEST_P(ExpertsTest, every_way_to_choose_agrees_with_the_oracle) {
  const auto model = open_golden("olmoe_clipped");
  ASSERT_NE(model, nullptr);
  for (LayerWeights& layer : model->layers) {
    layer.router_correction = {0.3f, -0.2f, 0.1f, 0.0f, -0.4f, 0.25f};
  }
  const ExpertsPlan original = model->plan.layers[0].experts;
  for (const ExpertsPlan& plan : other_choices(original)) {
    for (size_t i = 0; i < model->layers.size(); ++i) model->plan.layers[i].experts = plan;
    if (!plan.correction) {
      for (LayerWeights& layer : model->layers) layer.router_correction.clear();
    } else {
      for (LayerWeights& layer : model->layers) {
        layer.router_correction = {0.3f, -0.2f, 0.1f, 0.0f, -0.4f, 0.25f};
      }
    }
    const ModelShapeStorage shape(model->plan, 128);
    const std::vector<TokenId> tokens = some_tokens(40, model->plan.vocabulary);
    const Logits expected = Loaded({}, *model, shape.shape())->feed(tokens, {40});
    const Logits actual = Loaded(GetParam(), *model, shape.shape())->feed(tokens, {23, 1});
    EXPECT_LE(largest_difference(actual, expected), 1e-4)
        << static_cast<int>(plan.scoring) << plan.normalised << plan.groups;
  }
}

TEST(Experts, the_executor_chooses_as_the_oracle_does) {
  std::mt19937_64 generator(11);
  // Few levels, so that many experts score alike; with a correction all are different.
  const auto level = [&] { return static_cast<float>(generator() % 9) * 0.25f - 1.0f; };
  const auto value = [&] { return static_cast<float>(generator() >> 40) * 0x1p-23f - 1.0f; };
  ExpertsPlan plan{.count = 24, .chosen = 5};
  for (const ExpertsPlan& one : other_choices(plan)) {
    ExpertChoice choice;
    choice.reserve(one.count, one.chosen, 1);
    std::vector<float> memory(size_t{3} * one.count);
    for (int round = 0; round < 200; ++round) {
      std::vector<float> scores(one.count), correction(one.correction ? one.count : 0);
      if (one.correction) {
        std::ranges::generate(scores, value);
        std::ranges::generate(correction, value);
      } else {
        std::ranges::generate(scores, level);
      }
      choice.choose(one, scores, correction, 0, memory);
      const std::vector<ref::Chosen> expected = ref::choose(one, scores, correction);
      for (uint32_t i = 0; i < one.chosen; ++i) {
        ASSERT_EQ(choice.expert(i), expected[i].expert) << round;
        ASSERT_NEAR(choice.factor(i), expected[i].factor, 1e-6) << round;
      }
    }
  }
}

TEST(Experts, the_bytes_of_used_experts_are_counted_once_a_layer) {
  const auto model = open_golden("mixtral");  // 2 layers, 2 of 5 experts [22, 48]
  ASSERT_NE(model, nullptr);
  constexpr uint64_t kExpert = uint64_t{3} * 22 * 48 * 4;
  const ModelShapeStorage shape(model->plan, 128);
  const ExecutorCase cpu{ExecutorCase::Kind::cpu_plain, kCpuPortable, 2};
  Loaded executor(cpu, *model, shape.shape());
  executor->step({{executor->begin(), {5}}});
  EXPECT_EQ(executor.executor().collect(1)->expert_bytes, 2 * 2 * kExpert);
  executor->step({{executor->begin(), some_tokens(60, 99)}});
  EXPECT_EQ(executor.executor().collect(2)->expert_bytes, 2 * 5 * kExpert);
}

}  // namespace
}  // namespace tenon::test
