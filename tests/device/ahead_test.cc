// What a device gains by: steps that are planned while it computes, and drafters that see its
// hidden states.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/device/small_engine.h"
#include "tests/device/test_drafters.h"

namespace tenon::test {
namespace {

class PlanAheadOrNot : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Steps, PlanAheadOrNot, testing::Bool(), [](const auto& test) {
  return test.param ? "planned_ahead" : "one_by_one";
});

TEST_P(PlanAheadOrNot, a_drafter_that_sees_hidden_states_sees_those_of_the_host) {
  HiddenDrafter on_host;
  SmallEngine host({.world = engine_world("paged"),
                    .side = Side::cpu,
                    .drafter = &on_host,
                    .plan_ahead = GetParam()});
  EXPECT_EQ(host.run(), answers_of_the_host());
  HiddenDrafter on_device;
  SmallEngine device({.world = engine_world("paged"),
                      .side = Side::late,
                      .drafter = &on_device,
                      .plan_ahead = GetParam()});
  EXPECT_EQ(device.run(), answers_of_the_host());
  EXPECT_EQ(on_host.complaint(), "");
  EXPECT_GT(on_device.rows(), 0u);
  EXPECT_GT(on_device.accepted(), 0u);
  EXPECT_EQ(on_device.rows(), on_host.rows());
  EXPECT_EQ(on_device.digest(), on_host.digest());
}

// Counts the plans that are made while the device has a step in flight.
class WatchingScheduler final : public Scheduler {
 public:
  WatchingScheduler(Scheduler& inner, const KernelDevice& device)
      : inner_(inner), device_(device) {}
  Status on_event(const SequenceEvent& event) noexcept override { return inner_.on_event(event); }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    if (device_.in_flight() > 0) ++ahead_;
    for (const SequenceView& sequence : view.running) in_flight_ += sequence.in_flight_tokens;
    return inner_.plan(view, ledger, out);
  }
  uint64_t ahead() const { return ahead_; }
  uint64_t in_flight() const { return in_flight_; }

 private:
  Scheduler& inner_;
  const KernelDevice& device_;
  uint64_t ahead_ = 0;
  uint64_t in_flight_ = 0;
};

TEST_P(PlanAheadOrNot, schedulers_plan_while_the_device_computes_where_they_are_told_to) {
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    std::unique_ptr<WatchingScheduler> watching;
    EngineCase c{.world = engine_world("paged"), .side = Side::late, .scheduler = scheduler};
    c.plan_ahead = GetParam();
    c.around_scheduler = [&](Scheduler& inner, Executor& executor) {
      watching = std::make_unique<WatchingScheduler>(inner, static_cast<KernelDevice&>(executor));
      return watching.get();
    };
    EXPECT_EQ(SmallEngine(c).run(), answers_of_the_host()) << scheduler;
    EXPECT_EQ(watching->ahead() > 0, GetParam()) << scheduler;
    EXPECT_EQ(watching->in_flight() > 0, GetParam()) << scheduler;
  }
}

}  // namespace
}  // namespace tenon::test
