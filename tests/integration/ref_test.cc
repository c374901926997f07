// The oracle alone: every feature counts, every format is read.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/exec/ref/executor.h"
#include "tests/support/models/tiny_model.h"
#include "tests/support/step_driver.h"

namespace tenon::test {
namespace {

Logits logits_of(const Model& model, const ModelShape& shape) {
  auto executor = make_ref_executor();
  StepDriver driver(*executor, model, shape, {});
  EXPECT_TRUE(driver.load_status().ok()) << driver.load_status().message();
  return driver.feed(some_tokens(12, model.plan.vocabulary), {12});
}
Logits logits_of(const Model& model) {
  return logits_of(model, ModelShapeStorage(model.plan, 64).shape());
}

TEST(Ref, each_feature_of_the_architecture_has_an_effect) {
  FlatConfig config = tiny_config();
  config.qkv_bias = config.output_bias = config.mlp_bias = config.qk_norm = true;
  auto model = make_tiny_model({.config = config});
  Logits last = logits_of(*model);
  LayerWeights& layer = model->layers[0];
  for (std::vector<float>* vector :
       {&layer.attention_norm, &layer.mlp_norm, &layer.q_norm, &layer.k_norm, &layer.q_bias,
        &layer.k_bias, &layer.v_bias, &layer.output_bias, &layer.gate_bias, &layer.up_bias,
        &layer.down_bias, &model->final_norm}) {
    (*vector)[1] += 0.25f;
    const Logits now = logits_of(*model);
    EXPECT_NE(now, last);
    last = now;
  }
  model->plan.ropes[0].theta = 500;
  EXPECT_NE(logits_of(*model), last);
}

TEST(Ref, a_token_sees_those_before_it_and_none_behind) {
  const auto model = make_tiny_model({.config = tiny_config()});
  const ModelShapeStorage shape(model->plan, 64);
  const auto feed = [&](const std::vector<TokenId>& text) {
    auto executor = make_ref_executor();
    return StepDriver(*executor, *model, shape.shape(), {}).feed(text, {12});
  };
  std::vector<TokenId> text = some_tokens(12, 61);
  const Logits before = feed(text);
  text[7] = (text[7] + 1) % 61;
  const Logits changed = feed(text);
  for (size_t row = 0; row < 12; ++row) EXPECT_EQ(changed[row] != before[row], row >= 7) << row;
}

class RefFormatTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, RefFormatTest,
                         testing::Values(DType::f32, DType::f16, DType::bf16));

TEST_P(RefFormatTest, weights_may_start_at_any_address) {
  const auto aligned = make_tiny_model({.config = tiny_config(), .dtype = GetParam()});
  const auto misaligned =
      make_tiny_model({.config = tiny_config(), .dtype = GetParam(), .misaligned = true});
  EXPECT_EQ(logits_of(*misaligned), logits_of(*aligned));
}

TEST_P(RefFormatTest, sixteen_bits_stay_close_to_thirty_two) {
  const auto stored = make_tiny_model({.config = tiny_config(), .dtype = GetParam()});
  const auto exact = make_tiny_model({.config = tiny_config(), .dtype = DType::f32});
  EXPECT_LT(largest_difference(logits_of(*stored), logits_of(*exact)), 0.02);
}

}  // namespace
}  // namespace tenon::test
