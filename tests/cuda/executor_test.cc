// The executor `cuda` over the emulated device or a GPU, held against the oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cuda/rig/on_device.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::FlatConfig;
using tenon::test::make_tiny_model;
using tenon::test::tiny_config;

struct Case {
  const char* name;
  DType weights = DType::f32;
  DType kv = DType::f32;
  uint32_t head_dim = 8;
  float tolerance = 1e-4f;
};

class CudaExecutorTest : public testing::TestWithParam<Case> {
 protected:
  CudaExecutorTest()
      : model_(make_tiny_model({.config = config(), .dtype = GetParam().weights})),
        shape_(model_->plan, 64) {}
  static FlatConfig config() {
    FlatConfig c = tiny_config();
    c.head_dim = GetParam().head_dim;
    return c;
  }
  LoadOptions options(uint32_t block_tokens = 16) const {
    LoadOptions o;
    o.block_tokens = block_tokens;
    o.kv_dtype = GetParam().kv;
    o.max_rows = 48;
    return o;
  }
  Logits feed(uint32_t count, const std::vector<uint32_t>& chunks, const LoadOptions& o,
              uint64_t seed = 1) {
    OnDevice device(*model_, shape_.shape(), o, seed);
    return device.steps.feed(tokens(count), chunks);
  }
  std::vector<TokenId> tokens(uint32_t count) {
    return some_tokens(count, model_->plan.vocabulary, 3);
  }

  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(
    Types, CudaExecutorTest,
    testing::Values(Case{"f32"}, Case{"bf16_on_tensor_cores", DType::bf16, DType::bf16, 64, 2e-2f},
                    Case{"bf16_of_odd_heads", DType::bf16, DType::bf16, 8, 2e-2f},
                    Case{"f32_with_i8", DType::f32, DType::i8, 8, 1e-2f},
                    Case{"f32_with_i4_on_tensor_cores", DType::f32, DType::i4, 64, 2e-2f}),
    case_name);

TEST_P(CudaExecutorTest, gives_the_logits_of_the_oracle) {
  const auto ref = make_ref_executor();
  StepDriver oracle(*ref, *model_, shape_.shape(), options());
  const Logits expected = oracle.feed(tokens(21), {21});
  const Logits got = feed(21, {16, 1, 4}, options());
  expect_near(got, expected, GetParam().tolerance);
}

TEST_P(CudaExecutorTest, gives_the_same_bits_for_chunks_and_blocks_of_any_size) {
  const Logits expected = feed(21, {21}, options());
  EXPECT_EQ(feed(21, {1}, options(), 2), expected);
  EXPECT_EQ(feed(21, {7, 2}, options(3), 3), expected);
  EXPECT_EQ(feed(21, {20, 1}, options(1), 4), expected);
}

TEST_P(CudaExecutorTest, gives_a_sequence_the_same_bits_among_others) {
  OnDevice device(*model_, shape_.shape(), options());
  const size_t first = device.steps.begin();
  const size_t second = device.steps.begin();
  const Logits both = device.steps.step({{first, some_tokens(18, 61, 9)}, {second, tokens(21)}});
  const Logits alone = feed(21, {21}, options());
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), both.begin() + 18));
}

TEST_P(CudaExecutorTest, moves_tokens_between_blocks_behind_what_was_launched) {
  const std::vector<TokenId> text = tokens(6);
  OnDevice device(*model_, shape_.shape(), options(4));
  const size_t sequence = device.steps.begin();
  device.steps.step({{sequence, {text.begin(), text.begin() + 5}}});
  const BlockId block = device.steps.table(sequence)[1];
  const KvMove aside{0, {{}, block, 0}, {{}, block, 3}, 1};
  ASSERT_TRUE(device.executor->apply({&aside, 1}).ok());
  device.steps.roll_back(sequence, 4);
  device.steps.step({{sequence, some_tokens(1, 61, 9)}});
  const KvMove together{0, {{}, block, 3}, {{}, block, 0}, 1};
  ASSERT_TRUE(device.executor->apply({&together, 1}).ok());
  EXPECT_EQ(device.steps.step({{sequence, {text[5]}}})[0], feed(6, {6}, options())[5]);
}

TEST_P(CudaExecutorTest, refuses_a_model_that_does_not_fit_with_the_sum) {
  auto driver = std::make_shared<TestDriver>(100'000);
  const auto executor = make_cuda_executor(driver);
  StepDriver steps(*executor, *model_, shape_.shape(), options());
  EXPECT_EQ(steps.load_status().code(), StatusCode::out_of_memory);
  const std::string text(steps.load_status().message());
  EXPECT_NE(text.find("of device memory ("), std::string::npos) << text;
  EXPECT_NE(text.find(" K and V, "), std::string::npos) << text;
  EXPECT_NE(text.find(" captured steps); " + driver->device_name() +
                      " has 1 MiB free: lower kv_cache.memory"),
            std::string::npos)
      << text;
}

TEST(CudaExecutor, puts_work_on_a_queue_and_waits_only_for_results) {
  const auto model = make_tiny_model({.config = tiny_config()});
  const ModelShapeStorage shape(model->plan, 64);
  OnDevice device(*model, shape.shape());
  EXPECT_EQ(device.driver->waiting(), 0u);
#ifndef TENON_CUDA_TESTS_ON_A_GPU
  const uint64_t launches = device.driver->machine().counts().launches;
#endif
  const KvMove move{0, {{}, 0, 0}, {{}, 1, 0}, 1};
  ASSERT_TRUE(device.executor->apply({&move, 1}).ok());
  EXPECT_GT(device.driver->waiting(), 0u);
#ifndef TENON_CUDA_TESTS_ON_A_GPU
  EXPECT_EQ(device.driver->machine().counts().launches, launches);
#endif
}

TEST(CudaExecutor, sees_windows_and_blocks_that_are_gone) {
  FlatConfig config = tiny_config();
  config.layers = 1;
  config.window_tokens = {6};
  const auto model = make_tiny_model({.config = config});
  const ModelShapeStorage shape(model->plan, 64);
  const std::vector<TokenId> text = some_tokens(20, 61, 1);
  const Logits expected = OnDevice(*model, shape.shape()).steps.feed(text, {20});
  OnDevice device(*model, shape.shape(), {.block_tokens = 4});
  const size_t sequence = device.steps.begin();
  device.steps.step({{sequence, {text.begin(), text.end() - 1}}});
  device.steps.table(sequence)[0] = kNoBlock;
  device.steps.table(sequence)[1] = kNoBlock;
  EXPECT_EQ(device.steps.step({{sequence, {text.back()}}})[0], expected[19]);
}

TEST(CudaExecutor, knows_biases_that_fall_with_distance) {
  for (const char* name : {"bloom", "mpt", "mpt_scaled"}) {
    expect_oracle(std::string("models/") + name, 1e-4f, {});
  }
}

TEST(CudaExecutor, follows_the_oracle_on_the_models_that_are_bundled) {
  for (const char* name : {"tale-draft", "tale"}) {
    SCOPED_TRACE(name);
    auto model = open_model(tenon::source_folder() + "/configs/models/" + name);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const ModelShapeStorage shape((*model)->plan, 64);
    const std::vector<TokenId> text = some_tokens(7, (*model)->plan.vocabulary, 5);
    LoadOptions options;
    options.kv_dtype = DType::bf16;
    options.max_rows = 16;
    const auto ref = make_ref_executor();
    StepDriver oracle(*ref, **model, shape.shape(), options);
    OnDevice device(**model, shape.shape(), options);
    expect_near(device.steps.feed(text, {6, 1}), oracle.feed(text, {7}), 2e-2f);
  }
}

}  // namespace
}  // namespace tenon::cuda::test
