// The executor on a GPU, held against the oracle and itself, on the models that are bundled.
#include "core/exec/cuda/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/exec/cuda/device/cublaslt_library.h"
#include "core/exec/cuda/device/runtime_driver.h"
#include "core/exec/ref/executor.h"
#include "tests/cuda/device/real_driver.h"
#include "tests/support/folders.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::cuda::test {
namespace {

using tenon::test::LoadOptions;
using tenon::test::Logits;
using tenon::test::some_tokens;
using tenon::test::StepDriver;

constexpr uint32_t kTokens = 40;
constexpr uint32_t kLongText = 450;
constexpr float kTolerance = 2e-2f;  // of the largest logit

struct Bundled {
  explicit Bundled(const char* name, uint32_t tokens = kTokens, DType kv_dtype = DType::bf16) {
    auto opened = open_model(tenon::source_folder() + "/configs/models/" + name);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    model = std::move(*opened);
    shape = std::make_unique<ModelShapeStorage>(model->plan, std::max(64u, tokens));
    text = some_tokens(tokens, model->plan.vocabulary, 5);
    options.kv_dtype = kv_dtype;
    options.max_rows = std::max(64u, tokens);
  }
  Logits on_device(const std::vector<uint32_t>& chunks, const char* guest = nullptr) const {
    auto driver = make_runtime_driver();
    EXPECT_TRUE(driver.ok()) << driver.status().message();
    const auto executor = make_cuda_executor(std::move(*driver), &load_cublaslt);
    if (guest != nullptr) {
      const Status invited = executor->invite(guest);
      EXPECT_TRUE(invited.ok()) << invited.message();
    }
    StepDriver steps(*executor, *model, shape->shape(), options);
    EXPECT_TRUE(steps.load_status().ok()) << steps.load_status().message();
    return steps.feed(text, chunks);
  }
  Logits of_oracle() const {
    const auto ref = make_ref_executor();
    StepDriver steps(*ref, *model, shape->shape(), options);
    return steps.feed(text, {options.max_rows});
  }

  std::unique_ptr<Model> model;
  std::unique_ptr<ModelShapeStorage> shape;
  std::vector<TokenId> text;
  LoadOptions options;
};

// Within a part of the largest logit, and the same token where it is clear.
void expect_oracle(const Logits& got, const Logits& expected, float tolerance = kTolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t row = 0; row < expected.size(); ++row) {
    float largest = 1.0f;
    for (const float x : expected[row]) largest = std::max(largest, std::fabs(x));
    for (size_t i = 0; i < expected[row].size(); ++i) {
      ASSERT_NEAR(got[row][i], expected[row][i], tolerance * largest)
          << "row " << row << ", token " << i;
    }
    const auto best = std::max_element(expected[row].begin(), expected[row].end());
    auto others = expected[row];
    others[static_cast<size_t>(best - expected[row].begin())] = -INFINITY;
    if (*best - *std::max_element(others.begin(), others.end()) < 2 * tolerance * largest) continue;
    EXPECT_EQ(std::max_element(got[row].begin(), got[row].end()) - got[row].begin(),
              best - expected[row].begin())
        << "row " << row;
  }
}

class CudaDeviceTest : public testing::TestWithParam<const char*> {};
std::string model_name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, CudaDeviceTest, testing::Values("tale-draft", "tale"), model_name);

TEST_P(CudaDeviceTest, follows_the_oracle_and_chooses_its_tokens_where_they_are_clear) {
  const Bundled bundled(GetParam());
  expect_oracle(bundled.on_device({30, 1, 9}), bundled.of_oracle());
}

TEST_P(CudaDeviceTest, follows_it_with_cublaslt_as_a_guest) {
  const auto library = load_cublaslt();
  if (!library.ok()) GTEST_SKIP() << std::string(library.status().message());
  Bundled bundled(GetParam());
  bundled.options.graph_bytes = uint64_t{64} << 20;
  expect_oracle(bundled.on_device({30, 1}, "cublaslt"), bundled.of_oracle());
}

TEST_P(CudaDeviceTest, gives_the_same_bits_for_any_chunks) {
  const Bundled bundled(GetParam());
  const Logits expected = bundled.on_device({kTokens});
  EXPECT_EQ(bundled.on_device({1}), expected);
  EXPECT_EQ(bundled.on_device({7, 2, 30}), expected);
}

TEST_P(CudaDeviceTest, follows_the_oracle_through_long_texts_in_any_chunks) {
  const Bundled bundled(GetParam(), kLongText);
  const Logits whole = bundled.on_device({kLongText});
  expect_oracle(whole, bundled.of_oracle());
  EXPECT_EQ(bundled.on_device({1}), whole);
  EXPECT_EQ(bundled.on_device({200, 17, 3, 64}), whole);
}

TEST_P(CudaDeviceTest, follows_the_oracle_with_k_and_v_in_few_bits) {
  // What bf16 rounds otherwise may become another one of 16 steps.
  for (const auto& [kv, tolerance] : {std::pair(DType::i8, kTolerance), {DType::i4, 1e-1f}}) {
    SCOPED_TRACE(kv == DType::i8 ? "i8" : "i4");
    const Bundled bundled(GetParam(), kTokens, kv);
    const Logits whole = bundled.on_device({kTokens});
    expect_oracle(whole, bundled.of_oracle(), tolerance);
    EXPECT_EQ(bundled.on_device({11, 1}), whole);
  }
}

// Sequences of all lengths join, and a token each of all of them is a captured step.
TEST_P(CudaDeviceTest, gives_sequences_the_same_bits_alone_and_in_captured_steps_of_many) {
  constexpr uint32_t kSequences = 13, kSteps = 6;
  Bundled bundled(GetParam(), 20 * kSequences + kSteps);
  const auto prompt = [&](uint32_t i) {
    return std::vector<TokenId>(bundled.text.begin() + i, bundled.text.begin() + 21 * i + 1);
  };
  const auto next = [&](uint32_t i, uint32_t step) { return bundled.text[7 * i + step]; };
  bundled.options.blocks = 256;
  bundled.options.graph_bytes = uint64_t{256} << 20;
  const auto driver = std::make_shared<RealDriver>(uint64_t{4} << 30);
  const auto executor = make_cuda_executor(driver);
  StepDriver steps(*executor, *bundled.model, bundled.shape->shape(), bundled.options);
  ASSERT_TRUE(steps.load_status().ok()) << steps.load_status().message();
  std::vector<size_t> running;
  for (uint32_t i = 0; i < kSequences; ++i) {
    running.push_back(steps.begin());
    steps.step({{running[i], prompt(i)}}, StepDriver::Want::none);
  }
  std::vector<Logits> rows(kSequences);
  for (uint32_t step = 0; step < kSteps; ++step) {
    std::vector<StepDriver::Feed> feeds;
    for (uint32_t i = 0; i < kSequences; ++i) feeds.push_back({running[i], {next(i, step)}});
    const Logits together = steps.step(feeds);
    for (uint32_t i = 0; i < kSequences; ++i) rows[i].push_back(together[i]);
  }
  EXPECT_GT(driver->replays(), 2u);
  bundled.options.graph_bytes = 0;
  for (const uint32_t i : {0u, 1u, 7u, kSequences - 1}) {
    SCOPED_TRACE(i);
    Bundled alone(GetParam(), kLongText);
    alone.options = bundled.options;
    alone.text = prompt(i);
    for (uint32_t step = 0; step < kSteps; ++step) alone.text.push_back(next(i, step));
    const Logits expected = alone.on_device({19});
    EXPECT_TRUE(std::equal(rows[i].begin(), rows[i].end(), expected.end() - kSteps));
  }
}

}  // namespace
}  // namespace tenon::cuda::test
