// What the engine tells a scheduler beside its sequences.
#include <gtest/gtest.h>

#include "tests/fake_device/rig.h"

namespace tenon {
namespace {

// Passes everything on, lets time go by while planning, and keeps what it was told.
class Listener final : public Scheduler {
 public:
  explicit Listener(Scheduler& scheduler) : scheduler_(scheduler) {}
  Status on_event(const SequenceEvent& event) noexcept override {
    events.push_back(event);
    return scheduler_.on_event(event);
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    seen = view;
    clock->advance(1000 * static_cast<int64_t>(view.step_id));
    return scheduler_.plan(view, ledger, out);
  }

  SchedulerView seen;
  VirtualClock* clock = nullptr;
  std::vector<SequenceEvent> events;

 private:
  Scheduler& scheduler_;
};

TEST(SchedulerView, says_what_the_last_step_cost) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  Listener listener(*plugin);
  RigOptions options;
  options.own_scheduler = &listener;
  options.engine.plan_ahead = false;  // the clock moves while it plans
  Rig rig(options);
  listener.clock = &rig.clock();
  rig.submit(greedy_request(std::vector<TokenId>(20, 1), 4));
  rig.submit(greedy_request(std::vector<TokenId>(5, 2), 4));
  ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_EQ(listener.seen.last_step.step_id, 0u) << "nothing was computed before the first step";
  EXPECT_EQ(listener.seen.kv_tokens, 4096u);
  ASSERT_TRUE(rig.engine().step().ok());
  const StepCost first = listener.seen.last_step;
  EXPECT_EQ(first.step_id, 1u);
  EXPECT_EQ(first.rows, 25u);
  EXPECT_EQ(first.sequences, 2u);
  EXPECT_EQ(first.logits_rows, 2u);
  EXPECT_EQ(first.duration_ns, 1000);
  rig.run();
  EXPECT_EQ(listener.seen.last_step.duration_ns, 3000);
}

TEST(SchedulerEvents, name_tenant_and_prompt) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  Listener listener(*plugin);
  RigOptions options;
  options.own_scheduler = &listener;
  Rig rig(options);
  listener.clock = &rig.clock();
  Request request = greedy_request({1, 2, 3}, 2);
  request.tenant = 7;
  rig.submit(request);
  rig.run();
  ASSERT_EQ(listener.events.size(), 3u);
  const EventKind kinds[] = {EventKind::arrived, EventKind::progressed, EventKind::finished};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(listener.events[i].kind, kinds[i]);
    EXPECT_EQ(listener.events[i].tenant, 7u);
    EXPECT_EQ(listener.events[i].prompt_tokens, 3u);
    EXPECT_EQ(listener.events[i].known_tokens, 3 + i);
  }
}

}  // namespace
}  // namespace tenon
