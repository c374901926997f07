// What the CPU executor does for linear kernels that have less, or ask for more.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "core/exec/cpu/executor.h"
#include "tests/support/folders.h"
#include "tests/support/linear/plain_kernels.h"
#include "tests/support/linear/prepared_linear.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

// Stores, and counts what it is asked.
class StoringLinear final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  EpilogueMask epilogues() const noexcept override { return epilogue_bit(Epilogue::store); }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    for (const LinearJob& job : jobs) {
      if (job.epilogue != Epilogue::store) {
        return Status::error(StatusCode::unsupported, "it stores, and does no more");
      }
    }
    return to_.run(jobs, range, queue);
  }
};

// Multiplies x where it lies.
class UnpreparedLinear final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  uint64_t prepared_bytes(Preparation, uint32_t) const noexcept override { return 0; }
  Status prepare(const PrepareCall&, Slice) noexcept override {
    return Status::error(StatusCode::internal, "nothing is prepared here");
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    for (LinearJob job : jobs) {
      std::vector<float> reversed(uint64_t{job.x_rows} * job.k_in);  // as plain loops want it
      for (uint64_t row = 0; row < job.x_rows; ++row) {
        std::copy_n(static_cast<const float*>(job.prepared) + row * job.x_stride, job.k_in,
                    &reversed[(job.x_rows - 1 - row) * job.k_in]);
      }
      job.prepared = reversed.data();
      Status status = to_.run({&job, 1}, range, queue);
      if (!status.ok()) return status;
    }
    return {};
  }
};

// Fails in one worker's share of the work.
class FailingLinear final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  Status gather(const GatherCall& call, Slice slice) noexcept override {
    gathered += slice.index == 0;
    return to_.gather(call, slice);
  }
  Status prepare(const PrepareCall& call, Slice slice) noexcept override {
    if (fails_to_prepare && slice.index == 0) {
      return Status::error(StatusCode::failed, "a row is not a number");
    }
    return to_.prepare(call, slice);
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    if (fails_to_run && range.last == range.count) {
      return Status::error(StatusCode::failed, "a sum overflowed");
    }
    return to_.run(jobs, range, queue);
  }
  bool fails_to_prepare = false;
  bool fails_to_run = false;
  std::atomic<int> gathered = 0;
};

class LinearTest : public testing::Test {
 protected:
  LinearTest() : model_(make_tiny_model({.config = tiny_config()})) {}
  StepDriver& load(LinearKernel& kernel) {
    shape_ = std::make_unique<ModelShapeStorage>(model_->plan, 64);
    executor_ = *make_cpu_executor({2, kCpuPortable});
    LoadOptions options;
    options.attention = {&attention_};
    options.linear = [&kernel](const WeightView&) -> ChosenLinear { return &kernel; };
    driver_ = std::make_unique<StepDriver>(*executor_, *model_, shape_->shape(), options);
    EXPECT_TRUE(driver_->load_status().ok()) << driver_->load_status().message();
    return *driver_;
  }
  // Prefill in chunks, then a token at a time.
  Logits logits(LinearKernel& kernel) { return load(kernel).feed(some_tokens(20, 61), {9, 1}); }

  // A second part of a weight.
  template <typename T>
  void add_part(Weight& weight, std::vector<T>& values, DType dtype) {
    TensorView part{.data = values.data(), .dtype = dtype, .space = {}, .rank = 1};
    part.shape[0] = values.size();
    weight.parts.push_back(part);
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelShapeStorage> shape_;
  PlainAttention attention_;
  PlainLinear plain_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StepDriver> driver_;
};

TEST_F(LinearTest, epilogues_that_a_kernel_lacks_are_made_of_stored_products) {
  StoringLinear storing(plain_);
  const Logits composed = logits(storing);
  EXPECT_LE(largest_difference(composed, logits(plain_)), 1e-5) << "silu is libm's in one alone";
}

TEST_F(LinearTest, a_bias_is_added_before_what_the_executor_composes) {
  FlatConfig config = tiny_config();
  config.output_bias = config.mlp_bias = true;
  model_ = make_tiny_model({.config = config});
  StoringLinear storing(plain_);
  const Logits composed = logits(storing);
  EXPECT_EQ(composed, logits(plain_));
}

TEST_F(LinearTest, a_kernel_may_read_activations_as_they_are) {
  UnpreparedLinear unprepared(plain_);
  const Logits direct = logits(unprepared);
  EXPECT_EQ(direct, logits(plain_));
}

TEST_F(LinearTest, experts_are_multiplied_by_kernels_that_can_do_less) {
  for (const char* name : {"qwen2_moe", "gpt_oss"}) {
    SCOPED_TRACE(name);
    model_ = *open_model(golden_models() + name);
    const Logits expected = logits(plain_);
    StoringLinear storing(plain_);
    EXPECT_LE(largest_difference(logits(storing), expected), 1e-5);
    UnpreparedLinear unprepared(plain_);
    EXPECT_EQ(logits(unprepared), expected);
  }
}

// Gates and ups of some experts have another kernel: no epilogue takes both.
TEST_F(LinearTest, experts_of_a_layer_may_have_several_kernels) {
  model_ = *open_model(golden_models() + "mixtral");
  const Logits expected = logits(plain_);
  PlainLinear other;
  shape_ = std::make_unique<ModelShapeStorage>(model_->plan, 64);
  executor_ = *make_cpu_executor({2, kCpuPortable});
  LoadOptions options;
  options.attention = {&attention_};
  options.linear = [&](const WeightView& weight) -> ChosenLinear {
    const bool odd = weight.name.find(".experts.1.w") != std::string_view::npos ||
                     weight.name.find(".experts.2.w3") != std::string_view::npos;
    return odd ? &other : &plain_;
  };
  StepDriver driver(*executor_, *model_, shape_->shape(), options);
  ASSERT_TRUE(driver.load_status().ok()) << driver.load_status().message();
  EXPECT_LE(largest_difference(driver.feed(some_tokens(20, 61), {9, 1}), expected), 1e-5);
}

// A permutation of `count` columns.
std::vector<int32_t> turned(uint32_t count, uint32_t step) {
  std::vector<int32_t> order(count);
  for (uint32_t k = 0; k < count; ++k) order[k] = static_cast<int32_t>((k * step + 1) % count);
  return order;
}

TEST_F(LinearTest, weights_that_order_columns_alike_share_a_preparation_and_others_do_not) {
  const Logits expected = logits(plain_);
  std::vector<int32_t> a = turned(32, 5), b = turned(32, 7), c = turned(48, 11);
  for (LayerWeights& layer : model_->layers) {
    add_part(layer.q, a, DType::i32);
    add_part(layer.k, a, DType::i32);
    add_part(layer.v, b, DType::i32);
    add_part(layer.gate, a, DType::i32);
    add_part(layer.up, b, DType::i32);
    add_part(layer.down, c, DType::i32);
  }
  ActOrderLinear ordered;
  EXPECT_LE(largest_difference(logits(ordered), expected), 1e-5);

  ordered.prepared = 0;
  driver_->feed(some_tokens(3, 61), {3});
  // A layer: q and k, v · output · gate, up · down. Then the head.
  EXPECT_EQ(ordered.prepared, 2 * (2 + 1 + 2 + 1) + 1);
}

TEST_F(LinearTest, scales_of_the_checkpoint_round_what_each_weight_reads) {
  const Logits expected = logits(plain_);
  // 127 steps of the fine scale reach ±5, beyond any value here: it rounds and never clips.
  std::vector<float> fine = {0.04f}, coarse = {0.25f};
  for (LayerWeights& layer : model_->layers) {
    add_part(layer.q, fine, DType::f32);
    add_part(layer.k, fine, DType::f32);
    add_part(layer.v, fine, DType::f32);
  }
  StaticScaleLinear scaled;
  const Logits rounded = logits(scaled);
  EXPECT_LE(largest_difference(rounded, expected), 0.05) << "nearly the same numbers";
  EXPECT_NE(rounded, expected) << "x was rounded";
  scaled.prepared = 0;
  driver_->feed(some_tokens(3, 61), {3});
  EXPECT_EQ(scaled.prepared, 2 * 4 + 1) << "q, k and v share one";

  model_->layers[0].k.parts.pop_back();
  add_part(model_->layers[0].k, coarse, DType::f32);
  StaticScaleLinear mixed;
  EXPECT_NE(logits(mixed), rounded) << "k has a scale of its own";
  mixed.prepared = 0;
  driver_->feed(some_tokens(3, 61), {3});
  EXPECT_EQ(mixed.prepared, 2 * 4 + 1 + 1) << "one more, for k of the first layer";
}

TEST_F(LinearTest, the_embedding_is_gathered_in_one_call_a_step) {
  FlatConfig config = tiny_config();
  config.tied_embeddings = true;
  model_ = make_tiny_model({.config = config});
  FailingLinear counting(plain_);
  load(counting).feed(some_tokens(12, 61), {9, 3});
  EXPECT_EQ(counting.gathered, 2);
}

TEST_F(LinearTest, a_kernel_that_fails_fails_its_step_and_not_the_next) {
  FailingLinear failing(plain_);
  StepDriver& driver = load(failing);
  const size_t sequence = driver.begin();
  const auto error = [&](std::vector<TokenId> tokens) {
    const auto result = driver.try_step({{sequence, std::move(tokens)}});
    driver.roll_back(sequence, 0);
    return result.ok() ? std::string() : std::string(result.status().message());
  };
  failing.fails_to_run = true;
  EXPECT_EQ(error({1, 2}), "a sum overflowed");
  EXPECT_EQ(error({1}), "a sum overflowed");
  failing.fails_to_run = false;
  failing.fails_to_prepare = true;
  EXPECT_EQ(error({1, 2}), "a row is not a number");
  failing.fails_to_prepare = false;
  EXPECT_EQ(error({1, 2}), "");
}

}  // namespace
}  // namespace tenon::test
