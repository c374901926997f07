// The late device itself: its guards bite, its queue is late and in order.
#include "tests/device/late/late_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/result.h"
#include "tests/device/late/late_kernels.h"

namespace tenon::test {
namespace {

Status touch(const volatile std::byte* at) {
  (void)*at;
  return {};
}

class LateDeviceDies : public testing::Test {
 protected:
  // A child starts anew: the queue has a thread.
  LateDeviceDies() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LateDeviceDies, when_the_host_reads_device_memory) {
  LateDevice device;
  const std::byte* memory = device.memory.device.allocate(64);
  EXPECT_DEATH((void)touch(memory), "");
}

TEST_F(LateDeviceDies, when_the_host_reads_device_memory_after_the_device_worked) {
  LateDevice device;
  std::byte* memory = device.memory.device.allocate(64);
  ASSERT_TRUE(device.queue.run_now("touch", [=] { return touch(memory); }).ok());
  EXPECT_DEATH((void)touch(memory), "");
}

TEST_F(LateDeviceDies, when_the_device_reads_pageable_memory) {
  LateDevice device;
  const std::byte* memory = device.memory.pageable.allocate(64);
  EXPECT_TRUE(touch(memory).ok());
  EXPECT_DEATH((void)device.queue.run_now("touch", [=] { return touch(memory); }), "");
}

TEST(LateDevice, lets_both_sides_touch_pinned_memory) {
  LateDevice device;
  std::byte* memory = device.memory.pinned.allocate(64);
  ASSERT_TRUE(device.queue
                  .run_now("write",
                           [=] {
                             *memory = std::byte{7};
                             return Status();
                           })
                  .ok());
  EXPECT_EQ(*memory, std::byte{7});
}

TEST(LateDevice, gives_plugins_memory_of_its_own_and_pinned_memory) {
  LateDevice device;
  const HostServices& host = device.services();
  EXPECT_TRUE(device.memory.device.contains(host.allocate(host.context, kDeviceSpace, 100, 256)));
  EXPECT_TRUE(device.memory.pinned.contains(host.allocate(host.context, Space(), 100, 64)));
  EXPECT_EQ(host.allocate(host.context, {SpaceKind::cuda, 1}, 100, 64), nullptr);
}

TEST(LateQueue, runs_nothing_before_it_is_waited_for_and_then_all_in_order) {
  LateDevice device;
  std::vector<int> ran;
  uint64_t second = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t ticket = device.queue.push("work", [&ran, i] {
      ran.push_back(i);
      return Status();
    });
    if (i == 1) second = ticket;
  }
  EXPECT_TRUE(ran.empty());
  EXPECT_TRUE(device.queue.wait(second).ok());
  EXPECT_EQ(ran, (std::vector<int>{0, 1}));
  EXPECT_TRUE(device.queue.wait_for_all().ok());
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3}));
}

TEST(LateQueue, catches_up_by_chance_where_it_is_uneven) {
  LateDevice device({.pace = Pace::uneven, .seed = 2});
  for (int i = 0; i < 100; ++i) device.queue.push("work", [] { return Status(); });
  EXPECT_GT(device.queue.early_turns(), 0u);
  EXPECT_GT(device.queue.done(), 0u);
}

TEST(LateQueue, tells_an_error_to_whoever_waits_and_drops_what_stood_behind_it) {
  LateDevice device;
  int ran = 0;
  device.queue.push("first", [] { return failed("broke"); });
  const uint64_t dropped = device.queue.push("second", [&] { return ++ran, Status(); });
  device.queue.push("third", [&] { return ++ran, Status(); });
  EXPECT_EQ(device.queue.wait(dropped).message(), "first: broke");
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(device.queue.wait_for_all().ok());
  EXPECT_EQ(ran, 1);
}

// y = x · Wᵀ with W = 1, which reads how many rows count when it runs.
class OneByOne final : public LinearKernel {
 public:
  Status bind(const LinearLimits&) noexcept override { return {}; }
  EpilogueMask epilogues() const noexcept override { return epilogue_bit(Epilogue::store); }
  Status accepts(const WeightView&) const noexcept override { return {}; }
  uint64_t packed_bytes(const WeightView&) const noexcept override { return 4; }
  Status pack(const WeightView&, void*, Slice) noexcept override { return {}; }
  Status gather(const GatherCall&, Slice) noexcept override { return {}; }
  Preparation preparation(const WeightView&) const noexcept override { return {}; }
  uint64_t prepared_bytes(Preparation, uint32_t) const noexcept override { return 0; }
  Status prepare(const PrepareCall&, Slice) noexcept override { return {}; }
  Status run(std::span<const LinearJob> jobs, WorkRange, DeviceQueue) noexcept override {
    for (const LinearJob& job : jobs) {
      const uint32_t rows = job.rows_used == nullptr ? job.row_count() : *job.rows_used;
      for (uint32_t i = 0; i < rows; ++i) {
        static_cast<float*>(job.y)[i] = static_cast<const float*>(job.prepared)[i];
      }
    }
    return {};
  }
  std::string_view numerics() const noexcept override { return "one"; }
};

TEST(LateLinear, reads_what_a_job_points_to_when_the_work_runs_and_the_job_itself_at_once) {
  LateDevice device;
  OneByOne inner;
  LateLinear kernel(inner, device);
  const float x[] = {1, 2, 3, 4};
  const uint32_t none = 0;
  auto* y = reinterpret_cast<float*>(device.memory.device.allocate(4 * sizeof(float)));
  auto* used = reinterpret_cast<uint32_t*>(device.upload(&none, sizeof(none)));
  LinearJob job{.n_out = 1,
                .k_in = 1,
                .prepared = device.upload(x, sizeof(x)),
                .x_rows = 4,
                .rows_used = used,
                .y = y,
                .y_stride = 1};
  device.queue.push("a router", [=] {
    *used = 3;
    return Status();
  });
  ASSERT_TRUE(kernel.run({&job, 1}, {}, device.queue.handle()).ok());
  job = {};
  auto* result = reinterpret_cast<float*>(device.memory.pinned.allocate(4 * sizeof(float)));
  ASSERT_TRUE(device.queue
                  .run_now("copy",
                           [=] {
                             std::copy(y, y + 4, result);
                             return Status();
                           })
                  .ok());
  EXPECT_EQ(result[2], 3.0f);
  EXPECT_NE(result[3], result[3]);
}

TEST(LateLinear, refuses_a_job_that_points_to_host_memory) {
  LateDevice device;
  OneByOne inner;
  LateLinear kernel(inner, device);
  const float bias = 1;
  const LinearJob job{.n_out = 1, .bias = &bias};
  EXPECT_EQ(kernel.run({&job, 1}, {}, device.queue.handle()).message(),
            "a bias of a call on the device is not in its memory");
}

TEST(LateLinear, is_bound_to_the_device_only) {
  LateDevice device;
  OneByOne inner;
  LateLinear kernel(inner, device);
  EXPECT_FALSE(kernel.bind({.max_rows = 1}).ok());
  EXPECT_TRUE(kernel.bind({.max_rows = 1, .space = kDeviceSpace}).ok());
}

}  // namespace
}  // namespace tenon::test
