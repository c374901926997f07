// Kernels whose answers are checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/contract/checked_attention.h"
#include "core/contract/checked_linear.h"
#include "core/contract/checked_state.h"

namespace tenon {
namespace {

using testing::HasSubstr;

class SomeAttention final : public AttentionKernel {
 public:
  Status bind(const AttentionBinding&) noexcept override { return {}; }
  uint64_t plan_bytes(GroupId) const noexcept override { return planned_bytes; }
  uint64_t workspace_bytes(GroupId) const noexcept override { return work_bytes; }
  Status plan(const AttentionPlan&, KernelPlanOut& out) noexcept override {
    out = planned;
    return {};
  }
  Status run(const AttentionCall&, uint32_t, Slice) noexcept override { return {}; }
  std::string_view numerics() const noexcept override { return name; }

  uint64_t planned_bytes = 64, work_bytes = 64;
  KernelPlanOut planned;
  std::string name = "some/1";
};

Status bound(CheckedAttention& checked) {
  static const GroupId groups[] = {0};
  AttentionBinding binding;
  binding.groups = groups;
  return checked.bind(binding);
}

TEST(CheckedAttention, refuses_phases_that_nobody_could_run) {
  for (const uint32_t phases : {0u, 17u, 0xffffffffu}) {
    SomeAttention some;
    CheckedAttention checked(some, "x");
    ASSERT_TRUE(bound(checked).ok());
    some.planned.phases = phases;
    KernelPlanOut out;
    EXPECT_EQ(checked.plan({}, out).message(),
              "plan made a step of " + std::to_string(phases) + " phases – expected 1 to 16");
  }
}

TEST(CheckedAttention, refuses_a_plan_longer_than_its_room) {
  SomeAttention some;
  CheckedAttention checked(some, "x");
  ASSERT_TRUE(bound(checked).ok());
  some.planned = {1, 65};
  KernelPlanOut out;
  EXPECT_EQ(checked.plan({}, out).message(),
            "plan wrote 65 bytes – expected at most 64, for which it asked");
}

TEST(CheckedAttention, refuses_sizes_that_no_machine_has) {
  SomeAttention some;
  some.work_bytes = UINT64_MAX;
  CheckedAttention checked(some, "x");
  EXPECT_THAT(std::string(bound(checked).message()),
              HasSubstr("workspace_bytes wants 18446744073709551615 bytes for KV group 0"));
}

TEST(CheckedAttention, asks_for_sizes_once) {
  SomeAttention some;
  CheckedAttention checked(some, "x");
  ASSERT_TRUE(bound(checked).ok());
  some.planned_bytes = some.work_bytes = 1;
  EXPECT_EQ(checked.plan_bytes(0), 64u);
  EXPECT_EQ(checked.workspace_bytes(0), 64u);
}

TEST(CheckedAttention, refuses_numerics_that_tell_nothing_apart) {
  SomeAttention some;
  some.name = "";
  CheckedAttention checked(some, "x");
  EXPECT_EQ(bound(checked).message(),
            "numerics is empty – expected a text that tells its bits from other kernels'");
}

TEST(CheckedAttention, shows_numerics_as_plain_text) {
  SomeAttention some;
  some.name = "\x1b[2J" + std::string(100000, 'x');
  CheckedAttention checked(some, "x");
  EXPECT_LT(checked.numerics().size(), 300u);
  EXPECT_EQ(checked.numerics().substr(0, 8), "\\x1B[2Jx");
}

class SomeState final : public StateKernel {
 public:
  Status accepts(const LayerShape&) const noexcept override { return {}; }
  Status bind(const StateBinding&) noexcept override { return {}; }
  uint64_t plan_bytes(GroupId) const noexcept override { return 64; }
  uint64_t workspace_bytes(GroupId) const noexcept override { return work_bytes; }
  Status plan(const StatePlan&, KernelPlanOut& out) noexcept override {
    out = planned;
    return {};
  }
  Status run(const StateCall&, uint32_t, Slice) noexcept override { return {}; }
  std::string_view numerics() const noexcept override { return name; }

  uint64_t work_bytes = 64;
  KernelPlanOut planned;
  std::string name = "some/1";
};

Status bound(CheckedState& checked) {
  static const GroupId groups[] = {0};
  StateBinding binding;
  binding.groups = groups;
  return checked.bind(binding);
}

TEST(CheckedState, refuses_phases_that_nobody_could_run_and_plans_longer_than_their_room) {
  SomeState some;
  CheckedState checked(some, "x");
  ASSERT_TRUE(bound(checked).ok());
  KernelPlanOut out;
  some.planned = {0, 0};
  EXPECT_EQ(checked.plan({}, out).message(), "plan made a step of 0 phases – expected 1 to 16");
  some.planned = {1, 65};
  EXPECT_EQ(checked.plan({}, out).message(),
            "plan wrote 65 bytes – expected at most 64, for which it asked");
}

TEST(CheckedState, refuses_sizes_that_no_machine_has) {
  SomeState some;
  some.work_bytes = UINT64_MAX;
  CheckedState checked(some, "x");
  EXPECT_THAT(std::string(bound(checked).message()),
              HasSubstr("workspace_bytes wants 18446744073709551615 bytes for KV group 0"));
}

TEST(CheckedState, refuses_numerics_that_tell_nothing_apart) {
  SomeState some;
  some.name = "";
  CheckedState checked(some, "x");
  EXPECT_EQ(bound(checked).message(),
            "numerics is empty – expected a text that tells its bits from other kernels'");
}

class SomeLinear final : public LinearKernel {
 public:
  Status bind(const LinearLimits&) noexcept override { return {}; }
  EpilogueMask epilogues() const noexcept override { return mask; }
  Status accepts(const WeightView&) const noexcept override { return {}; }
  uint64_t packed_bytes(const WeightView&) const noexcept override { return packed; }
  Status pack(const WeightView&, void*, Slice) noexcept override {
    return Status::error(StatusCode::failed, "no");
  }
  Status gather(const GatherCall&, Slice) noexcept override { return {}; }
  Preparation preparation(const WeightView&) const noexcept override { return {0, k_in}; }
  uint64_t prepared_bytes(Preparation, uint32_t rows) const noexcept override {
    return rows == 1 ? one : all;
  }
  Status prepare(const PrepareCall&, Slice) noexcept override { return {}; }
  Status run(std::span<const LinearJob>, WorkRange, DeviceQueue) noexcept override { return {}; }
  std::string_view numerics() const noexcept override { return "some"; }

  EpilogueMask mask = epilogue_bit(Epilogue::store);
  uint64_t packed = 64, one = 64, all = 128;
  uint32_t k_in = 4;
};

Status accepted(SomeLinear& some) {
  CheckedLinear checked(some, "x");
  EXPECT_TRUE(checked.bind({.max_rows = 2}).ok());
  return checked.accepts({.format = "f32", .name = "w", .n_out = 2, .k_in = 4});
}

TEST(CheckedLinear, takes_sizes_that_can_be) {
  SomeLinear some;
  EXPECT_TRUE(accepted(some).ok());
  some.one = some.all = 0;
  EXPECT_TRUE(accepted(some).ok());
}

TEST(CheckedLinear, refuses_sizes_that_cannot_be_and_names_the_kernel) {
  SomeLinear some;
  some.packed = UINT64_MAX;
  EXPECT_THAT(std::string(accepted(some).message()),
              HasSubstr("linear 'x': packed_bytes wants 18446744073709551615 bytes for 'w'"));
  some = {};
  some.all = 32;
  EXPECT_THAT(std::string(accepted(some).message()),
              HasSubstr("prepared_bytes wants 64 bytes for a row and 32 for 2"));
  some = {};
  some.one = 0;
  EXPECT_FALSE(accepted(some).ok());
  some = {};
  some.k_in = 5;
  EXPECT_EQ(accepted(some).message(),
            "linear 'x': preparation is for rows of 5 numbers for 'w' – expected 4");
}

TEST(CheckedLinear, asks_for_sizes_once) {
  SomeLinear some;
  CheckedLinear checked(some, "x");
  ASSERT_TRUE(checked.bind({.max_rows = 2}).ok());
  const WeightView weight{.format = "f32", .name = "w", .n_out = 2, .k_in = 4};
  ASSERT_TRUE(checked.accepts(weight).ok());
  some.packed = some.one = some.all = 1;
  some.k_in = 5;
  EXPECT_EQ(checked.packed_bytes(weight), 64u);
  EXPECT_EQ(checked.preparation(weight).k_in, 4u);
  EXPECT_EQ(checked.prepared_bytes({0, 4}, 1), 64u);
  EXPECT_EQ(checked.prepared_bytes({0, 4}, 2), 128u);
}

TEST(CheckedLinear, refuses_a_kernel_that_cannot_store) {
  SomeLinear some;
  some.mask = epilogue_bit(Epilogue::add);
  CheckedLinear checked(some, "x");
  EXPECT_EQ(checked.bind({}).message(),
            "linear 'x': epilogues lack store – expected at least that one");
}

TEST(CheckedLinear, tells_all_workers_the_same_of_epilogues) {
  SomeLinear some;
  CheckedLinear checked(some, "x");
  ASSERT_TRUE(checked.bind({}).ok());
  some.mask = ~EpilogueMask{0};
  EXPECT_EQ(checked.epilogues(), epilogue_bit(Epilogue::store));
}

TEST(CheckedLinear, names_itself_in_errors_of_the_kernel) {
  SomeLinear some;
  CheckedLinear checked(some, "x");
  EXPECT_EQ(checked.pack({}, nullptr, {}).message(), "linear 'x': no");
}

TEST(Readable, cuts_and_escapes_what_plugins_say) {
  const Status shown =
      readable(Status::error(StatusCode::failed, "a\x1b[31m" + std::string(1 << 20, 'b')));
  EXPECT_LT(shown.message().size(), 2100u);
  EXPECT_THAT(std::string(shown.message()), HasSubstr("a\\x1B[31mbbb"));
  EXPECT_THAT(std::string(shown.message()), HasSubstr("(1048582 bytes)"));
}

TEST(Readable, gives_errors_without_a_code_or_a_text_both) {
  static const StatusRecord strange{StatusCode::ok, 5, nullptr,
                                    [](const StatusRecord*) noexcept {}};
  const Status shown = readable(Status(&strange));
  EXPECT_EQ(shown.code(), StatusCode::failed);
  EXPECT_EQ(shown.message(), "it failed without saying why");
}

}  // namespace
}  // namespace tenon
