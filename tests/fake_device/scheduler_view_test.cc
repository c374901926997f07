// The engine's data for a scheduler in addition to its sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "core/base/log.h"
#include "tests/fake_device/rig/rig.h"

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
    for (const SequenceView& one : view.waiting) deadlines.push_back(one.deadline_ns);
    clock->advance(1000 * static_cast<int64_t>(view.step_id));
    return scheduler_.plan(view, ledger, out);
  }

  SchedulerView seen;
  VirtualClock* clock = nullptr;
  std::vector<SequenceEvent> events;
  std::vector<int64_t> deadlines;  // of those that waited

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

TEST(SchedulerView, says_when_a_request_is_wanted) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  Listener listener(*plugin);
  RigOptions options;
  options.own_scheduler = &listener;
  options.engine.plan_ahead = false;
  Rig rig(options);
  listener.clock = &rig.clock();
  rig.clock().advance(500);
  Request soon = greedy_request({1, 2}, 1);
  soon.arrival_ns = 400;
  soon.deadline_ns = 2000;
  const RequestId id = rig.submit(soon);
  rig.submit(greedy_request({3, 4}, 1));
  rig.run();
  EXPECT_EQ(listener.deadlines, (std::vector<int64_t>{2400, 0})) << "arrival and deadline together";
  EXPECT_EQ(rig.result(id).record.deadline_ns, 2400);
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

// Grants nothing before `not_before_ns`, and says so.
class Postponer final : public Scheduler {
 public:
  explicit Postponer(Scheduler& scheduler) : scheduler_(scheduler) {}
  Status on_event(const SequenceEvent& event) noexcept override {
    return scheduler_.on_event(event);
  }
  Status plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) noexcept override {
    ++asked;
    if (view.now_ns >= not_before_ns) return scheduler_.plan(view, ledger, out);
    out.wake_ns = not_before_ns;
    return {};
  }

  int64_t not_before_ns = 5'000'000;
  int asked = 0;

 private:
  Scheduler& scheduler_;
};

class PostponedWork : public testing::Test {
 protected:
  PostponedWork() : plugin_("scheduler", "continuous"), postponer_(*plugin_), rig_(options()) {}
  RigOptions options() {
    RigOptions options;
    options.own_scheduler = &postponer_;
    return options;
  }
  bool has_work(std::chrono::nanoseconds timeout = {}) {
    return rig_.engine().wait_for_work(timeout);
  }

  LoadedPlugin<Scheduler> plugin_;
  Postponer postponer_;
  Rig rig_;
};

TEST_F(PostponedWork, is_not_slept_for_once_it_is_due) {
  rig_.submit(greedy_request({1, 2, 3}, 2));
  ASSERT_TRUE(rig_.engine().step().ok());
  rig_.clock().advance_to(rig_.engine().wake_ns());
  rusage before{}, after{};
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(has_work(std::chrono::milliseconds(1)));
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &after), 0);
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 10) << "times that the thread gave its core away";
  rig_.run();
}

TEST_F(PostponedWork, is_not_asked_for_before_its_time) {
  EXPECT_EQ(rig_.engine().wake_ns(), 0);
  const RequestId id = rig_.submit(greedy_request({1, 2, 3}, 2));
  EXPECT_TRUE(has_work());
  ASSERT_TRUE(rig_.engine().step().ok());
  EXPECT_EQ(rig_.engine().wake_ns(), postponer_.not_before_ns);
  EXPECT_FALSE(has_work());
  EXPECT_FALSE(rig_.engine().idle());
  rig_.clock().advance_to(rig_.engine().wake_ns());
  EXPECT_TRUE(has_work());
  rig_.run();
  EXPECT_EQ(rig_.result(id).tokens.size(), 2u);
}

TEST_F(PostponedWork, wakes_for_what_arrives_and_for_what_is_cancelled) {
  const RequestId first = rig_.submit(greedy_request({1, 2, 3}, 2));
  ASSERT_TRUE(rig_.engine().step().ok());
  EXPECT_FALSE(has_work());
  const RequestId second = rig_.submit(greedy_request({4, 5}, 2));
  EXPECT_TRUE(has_work());
  EXPECT_EQ(rig_.engine().wake_ns(), 0);
  ASSERT_TRUE(rig_.engine().step().ok());
  EXPECT_FALSE(has_work());
  rig_.engine().cancel(first);
  rig_.engine().cancel(second);
  EXPECT_TRUE(has_work());
  ASSERT_TRUE(rig_.engine().step().ok());
  EXPECT_TRUE(rig_.engine().idle());
}

constexpr int64_t kSecond = 1'000'000'000;

TEST_F(PostponedWork, ends_where_it_is_put_off_for_ever) {
  const RequestId id = rig_.submit(greedy_request({1, 2, 3}, 2));
  int64_t ended_ns = 0;
  for (int i = 0; i < 100 && !rig_.engine().idle(); ++i) {
    postponer_.not_before_ns = rig_.clock().now_ns() + 30 * kSecond;
    ended_ns = rig_.clock().now_ns();
    ASSERT_TRUE(rig_.engine().step().ok());
    if (!rig_.engine().idle()) rig_.clock().advance_to(rig_.engine().wake_ns());
  }
  EXPECT_TRUE(rig_.engine().idle());
  EXPECT_EQ(ended_ns, 60 * kSecond) << "not at the end of its last wish";
  EXPECT_EQ(rig_.result(id).message,
            "scheduler 'continuous' planned nothing on purpose for 1min (engine.wait_limit) – 1 "
            "sequences wait and 0 run – use another scheduler");
}

TEST_F(PostponedWork, is_spoken_of_while_it_lasts) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view component, std::string_view text) {
    if (level == LogLevel::warning)
      lines.push_back(std::string(component) + ": " + std::string(text));
  });
  postponer_.not_before_ns = 50 * kSecond;
  const RequestId id = rig_.submit(greedy_request({1, 2, 3}, 2));
  std::vector<int64_t> asked;
  while (!rig_.engine().idle() && rig_.clock().now_ns() < postponer_.not_before_ns) {
    asked.push_back(rig_.clock().now_ns() / kSecond);
    ASSERT_TRUE(rig_.engine().step().ok());
    rig_.clock().advance_to(rig_.engine().wake_ns());
  }
  set_log_sink({});
  EXPECT_EQ(asked, (std::vector<int64_t>{0, 5, 20})) << "then at the time that it wished for";
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(
      lines[0],
      "engine: scheduler 'continuous' has planned nothing on purpose for 5s, while 1 sequences "
      "wait and 0 run; it wishes to wait 45s more – after 1min (engine.wait_limit) they end "
      "with an error");
  EXPECT_THAT(lines[1], testing::HasSubstr("on purpose for 20s, "));
  rig_.run();
  EXPECT_EQ(rig_.result(id).tokens.size(), 2u) << "what it wished for was within the limit";
}

TEST_F(PostponedWork, is_refused_where_it_is_put_off_beyond_the_limit) {
  postponer_.not_before_ns = 3600 * kSecond;
  const RequestId id = rig_.submit(greedy_request({1, 2, 3}, 2));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig_.engine().step().ok());
  EXPECT_TRUE(rig_.engine().idle());
  EXPECT_EQ(rig_.clock().now_ns(), 0);
  EXPECT_EQ(rig_.result(id).message,
            "scheduler 'continuous': plan grants nothing and wants to wait for 1h – expected at "
            "most 1min (engine.wait_limit) while sequences wait");
}

TEST_F(PostponedWork, costs_no_steps_while_it_waits) {
  class Waiting final : public Clock {
   public:
    int64_t now_ns() const noexcept override { return wall_.now_ns() - start_ns_; }

   private:
    WallClock wall_;
    int64_t start_ns_ = wall_.now_ns();
  } clock;
  RigOptions options = this->options();
  options.own_clock = &clock;
  Rig rig(options);
  const RequestId id = rig.submit(greedy_request({1, 2, 3}, 2));
  rig.run();
  EXPECT_EQ(rig.result(id).tokens.size(), 2u);
  EXPECT_GE(clock.now_ns(), postponer_.not_before_ns);
  EXPECT_LE(postponer_.asked, 4) << "once to be told to wait, once for each step";
}

}  // namespace
}  // namespace tenon
