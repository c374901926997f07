// The oracle against itself: what must not matter, does not matter.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "core/exec/ref/ref_executor.h"
#include "tests/support/step_driver.h"
#include "tests/support/tiny_model.h"

namespace tenon::test {
namespace {

// A model with a driver of its own for each way to load it.
class RefTest : public testing::Test {
 protected:
  explicit RefTest(const ModelConfig& config = tiny_config())
      : model_(make_tiny_model({.config = config})), shape_(model_->config, 64) {}

  StepDriver& load(const LoadOptions& options = {}) {
    executors_.push_back(make_ref_executor());
    drivers_.push_back(
        std::make_unique<StepDriver>(*executors_.back(), *model_, shape_.shape(), options));
    EXPECT_TRUE(drivers_.back()->load_status().ok()) << drivers_.back()->load_status().message();
    return *drivers_.back();
  }
  std::vector<TokenId> tokens(uint32_t count, uint32_t seed = 1) {
    return some_tokens(count, model_->config.vocabulary, seed);
  }

  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::unique_ptr<StepDriver>> drivers_;
};

TEST_F(RefTest, chunks_of_any_size_give_the_same_bits) {
  const Logits whole = load().feed(tokens(33), {33});
  EXPECT_EQ(load().feed(tokens(33), {1}), whole);
  EXPECT_EQ(load().feed(tokens(33), {7, 1, 16}), whole);
}

TEST_F(RefTest, blocks_of_any_size_give_the_same_bits) {
  const Logits expected = load().feed(tokens(33), {5});
  for (const uint32_t block_tokens : {1u, 3u, 16u, 64u}) {
    EXPECT_EQ(load({.block_tokens = block_tokens}).feed(tokens(33), {5}), expected)
        << block_tokens << " tokens a block";
  }
}

TEST_F(RefTest, sequences_in_one_batch_do_not_touch_each_other) {
  const Logits alone_a = load().feed(tokens(20, 1), {20});
  const Logits alone_b = load().feed(tokens(9, 2), {9});
  StepDriver& driver = load();
  const size_t a = driver.begin();
  const size_t b = driver.begin();
  Logits both = driver.step({{a, tokens(20, 1)}, {b, tokens(9, 2)}});
  EXPECT_EQ(Logits(both.begin(), both.begin() + 20), alone_a);
  EXPECT_EQ(Logits(both.begin() + 20, both.end()), alone_b);
}

TEST_F(RefTest, a_token_sees_those_before_it_and_none_behind) {
  std::vector<TokenId> text = tokens(12);
  const Logits before = load().feed(text, {12});
  text[7] = (text[7] + 1) % 61;
  const Logits changed = load().feed(text, {12});
  EXPECT_EQ(Logits(changed.begin(), changed.begin() + 7),
            Logits(before.begin(), before.begin() + 7));
  for (size_t row = 7; row < 12; ++row) EXPECT_NE(changed[row], before[row]) << row;
}

TEST_F(RefTest, only_wanted_rows_have_logits) {
  StepDriver& driver = load();
  const size_t sequence = driver.begin();
  const Logits last = driver.step({{sequence, tokens(12)}}, StepDriver::Want::last);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0], load().feed(tokens(12), {12})[11]);
}

TEST_F(RefTest, positions_taken_back_leave_no_trace) {
  const std::vector<TokenId> text = tokens(20);
  const Logits expected = load().feed(text, {20});
  StepDriver& driver = load();
  const size_t sequence = driver.begin();
  driver.step({{sequence, {text.begin(), text.begin() + 10}}});
  driver.step({{sequence, tokens(8, 5)}});
  driver.roll_back(sequence, 10);
  EXPECT_EQ(driver.step({{sequence, {text.begin() + 10, text.end()}}}),
            Logits(expected.begin() + 10, expected.end()));
}

TEST_F(RefTest, a_copied_block_continues_like_the_original) {
  const std::vector<TokenId> text = tokens(10);
  StepDriver& driver = load({.block_tokens = 8});
  const size_t parent = driver.begin();
  driver.step({{parent, text}});
  const size_t child = driver.fork(parent, 10);
  // Position 10 would be written into the parent's second block.
  const KvMove copy{0, {{}, driver.table(child)[1], 0}, {{}, driver.take_block(), 0}, 2};
  ASSERT_TRUE(executors_.back()->apply({&copy, 1}).ok());
  driver.table(child)[1] = copy.to.block;
  const Logits both = driver.step({{parent, tokens(5, 6)}, {child, tokens(5, 7)}});
  std::vector<TokenId> alone = text;
  const std::vector<TokenId> tail = tokens(5, 7);
  alone.insert(alone.end(), tail.begin(), tail.end());
  const Logits expected = load().feed(alone, {15});
  EXPECT_EQ(Logits(both.begin() + 5, both.end()), Logits(expected.begin() + 10, expected.end()));
}

TEST_F(RefTest, kept_positions_can_be_brought_together) {
  const std::vector<TokenId> text = tokens(6);
  StepDriver& driver = load({.block_tokens = 4});
  const size_t sequence = driver.begin();
  // Position 4 holds a token that is dropped; the one at 5 belongs where that one stands, and was
  // computed as if it stood there: rotated for position 4.
  driver.step({{sequence, {text.begin(), text.begin() + 4}}});
  driver.step({{sequence, {text[4]}}});
  const BlockId block = driver.table(sequence)[1];
  const KvMove aside{0, {{}, block, 0}, {{}, block, 3}, 1};
  ASSERT_TRUE(executors_.back()->apply({&aside, 1}).ok());
  driver.roll_back(sequence, 4);
  driver.step({{sequence, tokens(1, 9)}});
  const KvMove together{0, {{}, block, 3}, {{}, block, 0}, 1};
  ASSERT_TRUE(executors_.back()->apply({&together, 1}).ok());
  EXPECT_EQ(driver.step({{sequence, {text[5]}}})[0], load().feed(text, {6})[5]);
}

TEST_F(RefTest, an_unknown_token_is_refused_and_the_next_step_runs) {
  StepDriver& driver = load();
  const size_t bad = driver.begin();
  EXPECT_EQ(driver.try_step({{bad, {61}}}).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(driver.feed(tokens(5), {5}), load().feed(tokens(5), {5}));
}

TEST_F(RefTest, a_kv_type_other_than_f32_is_refused) {
  auto executor = make_ref_executor();
  const StepDriver driver(*executor, *model_, shape_.shape(), {.kv_dtype = DType::bf16});
  EXPECT_EQ(driver.load_status().message(),
            "kv_cache dtype 'bf16' with the executor 'ref'; it keeps K and V in 'f32'");
}

class RefWindowTest : public RefTest {
 protected:
  static ModelConfig config() {
    ModelConfig c = tiny_config();
    c.layers = 1;
    c.window_tokens = {6};
    return c;
  }
  RefWindowTest() : RefTest(config()) {}
};

TEST_F(RefWindowTest, a_row_sees_the_last_positions_of_its_window_alone) {
  std::vector<TokenId> text = tokens(20);
  const Logits before = load().feed(text, {20});
  text[3] = (text[3] + 1) % 61;
  const Logits changed = load().feed(text, {20});
  for (size_t row = 0; row < 20; ++row) {
    EXPECT_EQ(changed[row] != before[row], row >= 3 && row < 3 + 6) << row;
  }
}

TEST_F(RefWindowTest, blocks_behind_the_window_may_be_gone) {
  const std::vector<TokenId> text = tokens(20);
  const Logits expected = load().feed(text, {20});
  StepDriver& driver = load({.block_tokens = 4});
  const size_t sequence = driver.begin();
  driver.step({{sequence, {text.begin(), text.end() - 1}}});
  driver.table(sequence)[0] = kNoBlock;
  driver.table(sequence)[1] = kNoBlock;
  EXPECT_EQ(driver.step({{sequence, {text.back()}}})[0], expected[19]);
}

// Every feature changes the result: none is read and then ignored.
TEST(RefFeatures, each_feature_of_the_architecture_has_an_effect) {
  const auto logits_of = [](const std::unique_ptr<Model>& model) {
    const ModelShapeStorage shape(model->config, 64);
    auto executor = make_ref_executor();
    StepDriver driver(*executor, *model, shape.shape(), {});
    return driver.feed(some_tokens(12, 61), {12});
  };
  ModelConfig config = tiny_config();
  config.qkv_bias = config.output_bias = config.mlp_bias = config.qk_norm = true;
  auto model = make_tiny_model({.config = config});
  Logits last = logits_of(model);
  LayerWeights& layer = model->layers[0];
  for (std::vector<float>* vector :
       {&layer.attention_norm, &layer.mlp_norm, &layer.q_norm, &layer.k_norm, &layer.q_bias,
        &layer.k_bias, &layer.v_bias, &layer.output_bias, &layer.gate_bias, &layer.up_bias,
        &layer.down_bias, &model->final_norm}) {
    (*vector)[1] += 0.25f;
    const Logits now = logits_of(model);
    EXPECT_NE(now, last);
    last = now;
  }
  model->config.rope_theta = 500;
  EXPECT_NE(logits_of(model), last);
}

TEST(RefFeatures, layers_may_share_kv_and_cap_their_scores) {
  auto model = make_tiny_model({.config = tiny_config()});
  const ModelShapeStorage storage(model->config, 64);
  std::vector<LayerShape> layers(storage.shape().layer, storage.shape().layer + 2);
  ModelShape shape = storage.shape();
  shape.layer = layers.data();
  const auto logits = [&] {
    auto executor = make_ref_executor();
    StepDriver driver(*executor, *model, shape, {});
    EXPECT_TRUE(driver.load_status().ok());
    return driver.feed(some_tokens(12, 61), {5});
  };
  const Logits plain = logits();
  layers[0].soft_cap = 0.5f;
  const Logits capped = logits();
  EXPECT_NE(capped, plain);
  layers[0].soft_cap = 1e6f;
  EXPECT_LT(largest_difference(logits(), plain), 1e-5);
  layers[1].shares_kv_with = 0;
  const Logits shared = logits();
  EXPECT_NE(shared, plain);
  model->layers[1].k_bias.clear();
  model->layers[1].k = model->layers[1].v = Weight{};
  EXPECT_EQ(logits(), shared) << "a sharing layer needs no K and V of its own";
}

class RefFormatTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, RefFormatTest,
                         testing::Values(DType::f32, DType::f16, DType::bf16));

TEST_P(RefFormatTest, weights_may_start_at_any_address) {
  const auto logits = [](bool misaligned) {
    const auto model =
        make_tiny_model({.config = tiny_config(), .dtype = GetParam(), .misaligned = misaligned});
    const ModelShapeStorage shape(model->config, 64);
    auto executor = make_ref_executor();
    StepDriver driver(*executor, *model, shape.shape(), {});
    return driver.feed(some_tokens(8, 61), {8});
  };
  EXPECT_EQ(logits(true), logits(false));
}

TEST_P(RefFormatTest, sixteen_bits_stay_close_to_thirty_two) {
  const auto logits = [](DType dtype) {
    const auto model = make_tiny_model({.config = tiny_config(), .dtype = dtype});
    const ModelShapeStorage shape(model->config, 64);
    auto executor = make_ref_executor();
    StepDriver driver(*executor, *model, shape.shape(), {});
    return driver.feed(some_tokens(8, 61), {8});
  };
  EXPECT_LT(largest_difference(logits(GetParam()), logits(DType::f32)), 0.02);
}

}  // namespace
}  // namespace tenon::test
