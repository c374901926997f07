// An executor `cuda` over the emulator, or a GPU, and a model, held against the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/cuda/executor.h"
#include "core/exec/ref/executor.h"
#include "core/model/model.h"
#include "core/model/tensors/weight_rows.h"
#include "tests/cuda/rig/emulated_device.h"
#include "tests/cuda/rig/test_driver.h"
#include "tests/support/folders.h"
#include "tests/support/linear/quant_weight.h"
#include "tests/support/step_driver.h"

namespace tenon::cuda::test {

using tenon::test::LoadOptions;
using tenon::test::Logits;
using tenon::test::some_tokens;
using tenon::test::StepDriver;

// A matrix as checkpoints hold it; `from` must outlive it.
inline Weight weight_of(const QuantWeight& from) {
  return {.name = "w",
          .format = from.format,
          .n_out = from.n_out,
          .k_in = from.k_in,
          .parts = {from.tensor}};
}

// An executor over a model, and a driver of steps.
struct OnDevice {
  OnDevice(const Model& model, const ModelShape& shape, const LoadOptions& options = {},
           uint64_t seed = 1)
      : driver(std::make_shared<TestDriver>(uint64_t{1} << 30, seed)),
        executor(make_cuda_executor(driver)),
        steps(*executor, model, shape, options) {
    EXPECT_TRUE(steps.load_status().ok()) << steps.load_status().message();
  }
  std::shared_ptr<TestDriver> driver;
  std::unique_ptr<Executor> executor;
  StepDriver steps;
};

// Within a part of the largest logit.
inline void expect_near(const Logits& got, const Logits& expected, float tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  float largest = 1.0f;
  for (const auto& row : expected) {
    for (const float x : row) largest = std::max(largest, std::fabs(x));
  }
  for (size_t row = 0; row < got.size(); ++row) {
    for (size_t i = 0; i < got[row].size(); ++i) {
      ASSERT_NEAR(got[row][i], expected[row][i], tolerance * largest)
          << "row " << row << ", token " << i << "; logits up to " << largest;
    }
  }
}

// One of tests/golden, by its place there; models with the weights that their recipes mean.
inline std::unique_ptr<Model> open_golden(const std::string& name) {
  const std::string models = "models/";
  auto model = open_model(name.starts_with(models) ? golden_models() + name.substr(models.size())
                                                   : source_folder() + "/tests/golden/" + name);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *std::move(model) : nullptr;
}

// A golden model's logits are those of the oracle, and the same bits in any chunks, blocks and
// batch.
inline void expect_oracle(const std::string& name, float tolerance, LoadOptions options) {
  SCOPED_TRACE(name);
  const auto model = open_golden(name);
  ASSERT_NE(model, nullptr);
  const ModelShapeStorage shape(model->plan, 64);
  options.max_rows = 40;
  const auto tokens = some_tokens(19, model->plan.vocabulary, 3);
  const auto ref = make_ref_executor();
  StepDriver oracle(*ref, *model, shape.shape(), options);
  OnDevice device(*model, shape.shape(), options);
  const Logits whole = device.steps.feed(tokens, {19});
  expect_near(whole, oracle.feed(tokens, {19}), tolerance);
  options.block_tokens = 3;
  OnDevice other(*model, shape.shape(), options, 2);
  EXPECT_EQ(other.steps.feed(tokens, {1}), whole);
  const size_t beside = other.steps.begin();
  const size_t again = other.steps.begin();
  const Logits both =
      other.steps.step({{beside, some_tokens(20, model->plan.vocabulary, 9)}, {again, tokens}});
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), both.begin() + 20));
}

// The same model with matrices of bf16, but for routers.
inline void narrow(Model& model, std::vector<std::vector<BFloat16>>& storage) {
  std::vector<Weight*> all = {&model.embedding, &model.head};
  for (LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) {
      if (weight != &layer.router) all.push_back(const_cast<Weight*>(weight));
    }
  }
  for (Weight* weight : all) {
    std::vector<float> values(size_t{weight->n_out} * weight->k_in);
    for (uint32_t row = 0; row < weight->n_out; ++row) {
      read_row(*weight, row, &values[size_t{row} * weight->k_in]);
    }
    storage.push_back(rounded(values));
    TensorView view;
    view.data = storage.back().data();
    view.dtype = DType::bf16;
    view.rank = 2;
    view.shape[0] = weight->n_out;
    view.shape[1] = view.stride[0] = weight->k_in;
    view.stride[1] = 1;
    weight->format = "bf16";
    weight->row_order = {};
    weight->parts = {view};
  }
}

// The same logits where matrices are of bf16, and the same bits in any chunks.
inline void expect_oracle_in_bf16(const std::string& name) {
  SCOPED_TRACE(name);
  const auto model = open_golden(name);
  ASSERT_NE(model, nullptr);
  std::vector<std::vector<BFloat16>> storage;
  narrow(*model, storage);
  const ModelShapeStorage shape(model->plan, 64);
  LoadOptions options;
  options.kv_dtype = DType::bf16;
  options.max_rows = 40;
  const auto tokens = some_tokens(19, model->plan.vocabulary, 3);
  const auto ref = make_ref_executor();
  StepDriver oracle(*ref, *model, shape.shape(), options);
  OnDevice device(*model, shape.shape(), options);
  const Logits whole = device.steps.feed(tokens, {19});
  expect_near(whole, oracle.feed(tokens, {19}), 2e-2f);
  EXPECT_EQ(device.steps.feed(tokens, {1}), whole);
}

}  // namespace tenon::cuda::test
