// The CPU executor's own: packing, kernels that differ, errors of kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/exec/cpu/executor.h"
#include "tests/support/linear/plain_kernels.h"
#include "tests/support/models/executor_case.h"
#include "tests/support/models/tiny_model.h"

namespace tenon::test {
namespace {

// A linear kernel under another name, which counts.
class CountingLinear final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  Status accepts(const WeightView& weight) const noexcept override {
    return weight.name == refused ? Status::error(StatusCode::unsupported, "not this one")
                                  : to_.accepts(weight);
  }
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override {
    if (weight.name == broken && slice.index + 1 == slice.count) {
      return Status::error(StatusCode::failed, "a row is damaged");
    }
    return to_.pack(weight, packed, slice);
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    if (range.first == 0) ++runs;
    if (range.first == 0 && writes_behind) {
      const LinearJob& job = jobs.front();
      static_cast<float*>(job.y)[LoadOptions().max_rows * job.y_stride] = 1.0f;
    }
    return to_.run(jobs, range, queue);
  }
  std::string_view numerics() const noexcept override { return "counting"; }

  std::string refused;
  std::string broken;
  bool writes_behind = false;
  int runs = 0;
};

class CpuTest : public testing::Test {
 protected:
  CpuTest() : model_(make_tiny_model({.config = tiny_config()})), shape_(model_->plan, 64) {
    executor_ = *make_cpu_executor({2, kCpuPortable});
  }
  StepDriver& load(const LinearResolver& linear) {
    driver_ = std::make_unique<StepDriver>(*executor_, *model_, shape_.shape(),
                                           LoadOptions{.attention = &attention_, .linear = linear});
    return *driver_;
  }
  LinearResolver counting() {
    return [this](const WeightView&) -> ChosenLinear { return &counting_; };
  }

  std::unique_ptr<Model> model_;
  ModelShapeStorage shape_;
  PlainAttention attention_;
  PlainLinear plain_;
  CountingLinear counting_{plain_};
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StepDriver> driver_;
};

TEST_F(CpuTest, kernels_of_several_kinds_compose_in_one_layer) {
  // Every other matrix has another kernel, the pair of gate and up included.
  int next = 0;
  StepDriver& mixed = load([&](const WeightView&) -> ChosenLinear {
    return ++next % 2 == 0 ? static_cast<LinearKernel*>(&plain_) : &counting_;
  });
  ASSERT_TRUE(mixed.load_status().ok());
  const std::vector<TokenId> tokens = some_tokens(20, 61);
  const Logits actual = mixed.feed(tokens, {9, 1});
  EXPECT_GT(counting_.runs, 0);
  const Logits expected = Loaded({}, *model_, shape_.shape())->feed(tokens, {20});
  EXPECT_LE(largest_difference(actual, expected), 1e-5);
  EXPECT_EQ(executor_->numerics(), "cpu.2/counting+plain+plain");
}

TEST_F(CpuTest, a_step_runs_five_products_a_layer_fused) {
  StepDriver& driver = load(counting());
  driver.feed(some_tokens(3, 61), {3});
  // q k v · output · gate up · down, for each of 2 layers, and the head.
  EXPECT_EQ(counting_.runs, 2 * 4 + 1);
}

TEST_F(CpuTest, pages_of_the_checkpoint_are_released_once_packed) {
  ASSERT_TRUE(load(counting()).load_status().ok());
  for (const LayerWeights& layer : model_->layers) {
    EXPECT_EQ(release_count(*model_, layer.q), 1u);
    EXPECT_EQ(release_count(*model_, layer.down), 1u);
  }
  EXPECT_EQ(release_count(*model_, model_->head), 1u);
  EXPECT_EQ(release_count(*model_, model_->embedding), 0u) << "its rows are still read";
}

TEST_F(CpuTest, a_tied_head_is_packed_once_and_serves_as_embedding) {
  FlatConfig config = tiny_config();
  config.tied_embeddings = true;
  model_ = make_tiny_model({.config = config});
  StepDriver& driver = load(counting());
  ASSERT_TRUE(driver.load_status().ok());
  EXPECT_EQ(release_count(*model_, model_->embedding), 1u);
  const uint64_t matrices = 2 * (32 * 32 * 2 + 16 * 32 * 2 + 48 * 32 * 3) + 61 * 32;
  EXPECT_EQ(executor_->weight_bytes(), matrices * sizeof(float));
  const std::vector<TokenId> tokens = some_tokens(8, 61);
  EXPECT_LE(largest_difference(driver.feed(tokens, {8}),
                               Loaded({}, *model_, shape_.shape())->feed(tokens, {8})),
            1e-5);
}

TEST_F(CpuTest, progress_rises_to_the_whole) {
  ExecutorSetup setup;
  const KvGroupGeometry group{DType::f32, 4, 4, 0, 0};
  std::vector<uint64_t> seen;
  uint64_t total = 0;
  setup.model = model_.get();
  setup.shape = &shape_.shape();
  setup.geometry = {64, 1, 1, &group};
  setup.max_rows = setup.max_sequences = 1;
  setup.attention = &attention_;
  setup.linear = counting();
  setup.progress = [&](uint64_t done, uint64_t all) {
    seen.push_back(done);
    total = all;
  };
  ASSERT_TRUE(executor_->load(setup).ok());
  ASSERT_GE(seen.size(), 2u * 7 + 1);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), total);
  EXPECT_EQ(total, executor_->weight_bytes());
}

TEST_F(CpuTest, a_weight_that_its_kernel_refuses_is_named) {
  counting_.refused = "layer 1 gate";
  EXPECT_EQ(load(counting()).load_status().message(), "layer 1 gate: not this one");
}

TEST_F(CpuTest, an_error_of_one_worker_while_packing_ends_the_load) {
  counting_.broken = "layer 0 up";
  const Status& status = load(counting()).load_status();
  EXPECT_EQ(status.code(), StatusCode::failed);
  EXPECT_EQ(status.message(), "layer 0 up: a row is damaged");
}

TEST_F(CpuTest, a_resolver_without_a_kernel_ends_the_load) {
  const Status& status = load([](const WeightView& weight) -> Result<ChosenLinear> {
                           return not_found("no kernel for " + std::string(weight.format));
                         }).load_status();
  EXPECT_EQ(status.message(), "no kernel for f32");
}

TEST_F(CpuTest, kernels_must_be_given) {
  ExecutorSetup setup;
  setup.model = model_.get();
  setup.shape = &shape_.shape();
  EXPECT_EQ(executor_->load(setup).code(), StatusCode::internal);
}

// Fails in one layer's last phase, on one worker.
class FailingAttention final : public AttentionKernel {
 public:
  Status bind(const AttentionBinding& binding) noexcept override {
    return refuses ? Status::error(StatusCode::unsupported, "not today") : plain_.bind(binding);
  }
  uint64_t plan_bytes(GroupId group) const noexcept override { return plain_.plan_bytes(group); }
  uint64_t workspace_bytes(GroupId group) const noexcept override {
    return plain_.workspace_bytes(group);
  }
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    return plain_.plan(plan, out);
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    if (fails && call.layer == 1 && phase == 2 && slice.index + 1 == slice.count) {
      return Status::error(StatusCode::failed, "a score overflowed");
    }
    if (room_behind != nullptr && phase == 0 && slice.index == 0) room_behind(call);
    return plain_.run(call, phase, slice);
  }
  std::string_view numerics() const noexcept override { return plain_.numerics(); }

  void (*room_behind)(const AttentionCall& call) = nullptr;
  bool refuses = false;
  bool fails = true;

 private:
  PlainAttention plain_;
};

TEST_F(CpuTest, an_attention_kernel_that_refuses_the_model_is_named) {
  FailingAttention attention;
  attention.refuses = true;
  const StepDriver driver(*executor_, *model_, shape_.shape(),
                          {.attention = {&attention, "picky"}, .linear = counting()});
  EXPECT_EQ(driver.load_status().message(), "attention 'picky': not today");
}

// The bytes after the room are lost, so no step is right from then on.
TEST_F(CpuTest, a_linear_kernel_that_writes_behind_its_output_is_named_in_that_step_and_later) {
  StepDriver& driver = load(counting());
  const size_t sequence = driver.begin();
  ASSERT_TRUE(driver.try_step({{sequence, {1, 2}}}).ok());
  for (const bool writes : {true, false}) {
    counting_.writes_behind = writes;
    EXPECT_EQ(driver.try_step({{sequence, {1, 2}}}).status().message(),
              "linear kernel 'counting': prepare, gather or run wrote behind its output or what it "
              "prepares – use another kernel");
  }
}

TEST_F(CpuTest, an_attention_kernel_that_writes_behind_its_rooms_is_named_in_that_step) {
  FailingAttention attention;
  attention.fails = false;
  const auto error_of_a_step = [&] {
    StepDriver driver(*executor_, *model_, shape_.shape(),
                      {.attention = {&attention, "loose"}, .linear = counting()});
    return std::string(driver.try_step({{driver.begin(), {1, 2}}}).status().message());
  };
  attention.room_behind = [](const AttentionCall& call) {
    const size_t row = 4 * 8;  // query heads times their width
    static_cast<float*>(call.out)[LoadOptions().max_rows * row] = 1.0f;
  };
  EXPECT_EQ(error_of_a_step(),
            "attention 'loose': run wrote behind its output – use another kernel");
  attention.room_behind = [](const AttentionCall& call) {
    static_cast<char*>(call.workspace)[1] = 1;  // where it had asked for nothing
  };
  EXPECT_EQ(error_of_a_step(),
            "attention 'loose': plan or run wrote behind the memory that it had asked for – use "
            "another kernel");
}

TEST_F(CpuTest, a_failing_kernel_fails_its_step_and_not_the_next) {
  FailingAttention attention;
  StepDriver driver(*executor_, *model_, shape_.shape(),
                    {.attention = &attention, .linear = counting()});
  const size_t sequence = driver.begin();
  EXPECT_EQ(driver.try_step({{sequence, {1, 2}}}).status().message(),
            "attention: a score overflowed");
  attention.fails = false;
  driver.roll_back(sequence, 0);
  EXPECT_TRUE(driver.try_step({{sequence, {1, 2}}}).ok());
}

}  // namespace
}  // namespace tenon::test
