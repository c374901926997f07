// Mistakes that a real device would turn into wrong numbers now and then are found out here, each
// by a kernel that makes it.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/device/sequences.h"
#include "tests/device/small_world.h"
#include "tests/device/step_results.h"
#include "tests/support/linear/plain_linear.h"

namespace tenon::test {
namespace {

// One step of one prompt on a device whose kernels a test has wrapped.
class Wrapped {
 public:
  explicit Wrapped(bool guarded = true)
      : device({.guarded = guarded}),
        linear_plugin_("linear", "dense"),
        attention_plugin_("attention", "cpu"),
        late_linear(*linear_plugin_, device),
        late_attention(*attention_plugin_, device),
        executor(device, {}),
        sequences(world, "paged") {}

  Status load(LinearKernel& linear, AttentionKernel& attention) {
    (void)linear.bind({.max_rows = world.options.max_rows, .space = kDeviceSpace});
    ExecutorSetup setup;
    setup.model = world.model.get();
    setup.shape = &world.shape;
    setup.geometry = world.geometry;
    setup.max_rows = world.options.max_rows;
    setup.max_sequences = world.options.max_sequences;
    setup.attention = AttentionKernels(&attention, "late");
    setup.linear = [&linear](const WeightView&) -> ChosenLinear { return &linear; };
    return executor.load(setup);
  }
  StepValues run(std::vector<TokenId> tokens) {
    const SeqId seq = sequences.begin(std::move(tokens));
    sequences.open();
    EXPECT_TRUE(sequences.feed({.seq = seq, .known = sequences.left(seq)}));
    const BatchView& batch = sequences.close();
    StepValues values = run_step(executor, sequences.moves(), batch, world.shape.hidden);
    sequences.finish();
    return values;
  }

  SmallWorld world{WorldOptions()};
  LateDevice device;

 private:
  LoadedPlugin<LinearKernel> linear_plugin_;
  LoadedPlugin<AttentionKernel> attention_plugin_;

 public:
  LateLinear late_linear;
  LateAttention late_attention;
  KernelDevice executor;
  Sequences sequences;
};

class ForwardingAttention : public AttentionKernel {
 public:
  explicit ForwardingAttention(AttentionKernel& to) : to_(to) {}
  Status bind(const AttentionBinding& binding) noexcept override { return to_.bind(binding); }
  uint64_t plan_bytes(GroupId group) const noexcept override { return to_.plan_bytes(group); }
  uint64_t workspace_bytes(GroupId group) const noexcept override {
    return to_.workspace_bytes(group);
  }
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    return to_.plan(plan, out);
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    return to_.run(call, phase, slice);
  }
  std::string_view numerics() const noexcept override { return to_.numerics(); }

 protected:
  ~ForwardingAttention() = default;
  AttentionKernel& to_;
};

// Keeps the batch and reads it on the device.
class ReadsTheBatchLate final : public ForwardingAttention {
 public:
  using ForwardingAttention::ForwardingAttention;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    slots_ = plan.batch->groups[plan.group].slots;
    return to_.plan(plan, out);
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) noexcept override {
    LateQueue::of(call.queue).push("a look at the batch", [this] {
      return slots_[0] == 0 ? Status() : internal("the batch has changed");
    });
    return to_.run(call, phase, slice);
  }

 private:
  std::span<const uint32_t> slots_;
};

// Says that it wrote nothing, so nothing of its plan is copied.
class ForgetsItsPlan final : public ForwardingAttention {
 public:
  using ForwardingAttention::ForwardingAttention;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) noexcept override {
    Status status = to_.plan(plan, out);
    out.plan_bytes = 0;
    return status;
  }
};

// Multiplies before the activations are prepared.
class PreparesTooLate final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  Status prepare(const PrepareCall& call, Slice) noexcept override {
    held_ = call;
    return {};
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    TENON_RETURN_IF_ERROR(to_.run(jobs, range, queue));
    return to_.prepare(held_, {});
  }

 private:
  PrepareCall held_;
};

// Fails on the device, once.
class FailsOnce final : public ForwardingLinear {
 public:
  using ForwardingLinear::ForwardingLinear;
  Status run(std::span<const LinearJob> jobs, WorkRange range,
             DeviceQueue queue) noexcept override {
    if (!std::exchange(failed_, true)) {
      LateQueue::of(queue).push("a product", [] { return tenon::failed("an illegal address"); });
    }
    return to_.run(jobs, range, queue);
  }

 private:
  bool failed_ = false;
};

TEST(Mistakes, a_kernel_that_reads_the_batch_when_its_work_runs_dies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Wrapped rig;
  ReadsTheBatchLate attention(rig.late_attention);
  ASSERT_TRUE(rig.load(rig.late_linear, attention).ok());
  EXPECT_DEATH((void)rig.run({1, 2, 3}), "");
}

TEST(Mistakes, the_same_kernel_gets_away_with_it_where_nothing_is_guarded) {
  Wrapped rig(false);
  ReadsTheBatchLate attention(rig.late_attention);
  ASSERT_TRUE(rig.load(rig.late_linear, attention).ok());
  EXPECT_EQ(rig.run({1, 2, 3}).error, "");
}

TEST(Mistakes, a_host_that_reads_the_weights_or_the_cache_of_a_loaded_model_dies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Wrapped rig;
  ASSERT_TRUE(rig.load(rig.late_linear, rig.late_attention).ok());
  EXPECT_EQ(rig.run({1, 2, 3}).error, "");
  const volatile std::byte* first = rig.device.memory.device.base();
  const volatile std::byte* last = first + rig.device.memory.device.used() - 1;
  EXPECT_DEATH((void)*first, "");
  EXPECT_DEATH((void)*last, "");
}

TEST(Mistakes, a_plan_that_never_came_to_the_device_is_an_error_of_the_step) {
  Wrapped rig;
  ForgetsItsPlan attention(rig.late_attention);
  ASSERT_TRUE(rig.load(rig.late_linear, attention).ok());
  EXPECT_EQ(rig.run({1, 2, 3}).error, "attention: the plan never came to the device");
}

TEST(Mistakes, work_in_a_wrong_order_gives_no_number_instead_of_the_last_steps) {
  Wrapped rig;
  PreparesTooLate linear(rig.late_linear);
  ASSERT_TRUE(rig.load(linear, rig.late_attention).ok());
  for (int step = 0; step < 2; ++step) {
    const StepValues values = rig.run({1, 2, 3});
    ASSERT_FALSE(values.logits.empty());
    EXPECT_NE(values.logits[0], values.logits[0]);
  }
}

TEST(Mistakes, an_error_on_the_device_is_one_of_collect_and_the_next_step_runs) {
  Wrapped rig;
  FailsOnce linear(rig.late_linear);
  ASSERT_TRUE(rig.load(linear, rig.late_attention).ok());
  EXPECT_EQ(rig.run({1, 2, 3}).error, "a product: an illegal address");
  EXPECT_EQ(rig.run({1, 2, 3}).error, "");
}

TEST(KernelDevice, keeps_two_steps_in_flight_and_refuses_a_third) {
  const SmallWorld world{WorldOptions()};
  Machine together(world, Side::late);
  Machine apart(world, Side::late);
  std::vector<StepValues> expected;
  std::vector<std::unique_ptr<Sequences>> all;
  std::vector<BatchView> batches;
  for (uint32_t i = 0; i < 3; ++i) {
    // Managers of their own: each step must stay as it is while the next one is made. Blocks differ
    // through the sequences in front.
    auto sequences = std::make_unique<Sequences>(world, "paged");
    sequences->open();
    for (TokenId token = 1; token <= static_cast<TokenId>(i) + 1; ++token) {
      const SeqId seq = sequences->begin({token, 5, 6});
      ASSERT_TRUE(sequences->feed({.seq = seq, .known = 3}));
    }
    BatchView batch = sequences->close();
    batch.step_id = i + 1;
    batches.push_back(batch);
    all.push_back(std::move(sequences));
    expected.push_back(run_step(apart.executor(), {}, batch, world.shape.hidden));
  }
  ASSERT_TRUE(together->launch(batches[0]).ok());
  ASSERT_TRUE(together->launch(batches[1]).ok());
  EXPECT_EQ(together->launch(batches[2]).message(),
            "a third step was launched; two may be in flight");
  expect_same(values_of(together->collect(1), world.shape.hidden), expected[0], "first");
  ASSERT_TRUE(together->launch(batches[2]).ok());
  expect_same(values_of(together->collect(2), world.shape.hidden), expected[1], "second");
  expect_same(values_of(together->collect(3), world.shape.hidden), expected[2], "third");
  EXPECT_EQ(together->collect(3).status().message(), "step 3 is not in flight");
}

}  // namespace
}  // namespace tenon::test
