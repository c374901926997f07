// Steps that are planned while the device computes the one before.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/fake_device/rig/masked_ledger.h"
#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

constexpr int64_t kStepNs = 10'000'000;

// The share of the time that the device had nothing to do, where a plan costs that much of a step.
double idle_share(bool plan_ahead, double plan_cost) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  MaskedScheduler scheduler(*plugin);
  RigOptions options;
  options.own_scheduler = &scheduler;
  options.engine.plan_ahead = plan_ahead;
  Rig rig(options);
  rig.device().time.clock = &rig.clock();
  rig.device().time.step_ns = kStepNs;
  scheduler.after = [&](const SchedulerView&, const PlanOut&) {
    rig.clock().advance(static_cast<int64_t>(plan_cost * kStepNs));
  };
  for (uint32_t i = 0; i < 6; ++i) rig.submit(greedy_request({1, 2, static_cast<TokenId>(i)}, 150));
  rig.run();
  return static_cast<double>(rig.device().time.idle_ns) / static_cast<double>(rig.clock().now_ns());
}

TEST(PlanAhead, hides_planning_behind_the_device) {
  const double without = idle_share(false, 0.8), with = idle_share(true, 0.8);
  EXPECT_GT(without, 0.4);
  EXPECT_LT(with, 0.05);
  RecordProperty("idle_percent_without", static_cast<int>(without * 100));
  RecordProperty("idle_percent_with", static_cast<int>(with * 100));
  std::printf("device idle: %.1f %% planning in between, %.1f %% planning ahead\n", without * 100,
              with * 100);
}

RigOptions ahead() {
  RigOptions options;
  options.engine.plan_ahead = true;
  return options;
}

void expect_oracle(Rig& rig, const RigOptions& options, RequestId id, const Request& request) {
  const Expected expected =
      oracle(options.model(), request, 0, options.context_tokens, options.eos_tokens);
  EXPECT_EQ(rig.result(id).ids(), expected.ids);
  EXPECT_EQ(rig.result(id).record.logits_digest, expected.digest);
}

TEST(PlanAhead, shows_the_scheduler_what_is_in_flight) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  MaskedScheduler scheduler(*plugin);
  RigOptions options = ahead();
  options.own_scheduler = &scheduler;
  std::vector<SequenceView> seen;
  scheduler.before = [&](const SchedulerView& view) {
    for (const SequenceView& sequence : view.running) seen.push_back(sequence);
  };
  Rig rig(options);
  rig.submit(greedy_request({1, 2, 3}, 4));
  ASSERT_TRUE(rig.engine().step().ok());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].known_tokens, 4u) << "the token that is being drawn counts";
  EXPECT_EQ(seen[0].computed_tokens, 3u);
  EXPECT_EQ(seen[0].in_flight_tokens, 3u);
  rig.run();
  for (const SequenceView& sequence : seen) {
    EXPECT_LT(sequence.known_tokens, sequence.limit_tokens)
        << "the last token is never planned for";
  }
}

TEST(PlanAhead, refuses_to_release_what_is_in_flight) {
  LoadedPlugin<Scheduler> plugin("scheduler", "continuous");
  MaskedScheduler scheduler(*plugin);
  RigOptions options = ahead();
  options.own_scheduler = &scheduler;
  uint32_t refused = 0;
  scheduler.before = [&](const SchedulerView& view) {
    for (const SequenceView& sequence : view.running) {
      if (sequence.in_flight_tokens == 0) continue;
      EXPECT_FALSE(scheduler.mask.real->release(sequence.seq, ReleaseHow::recompute));
      ++refused;
    }
  };
  Rig rig(options);
  rig.submit(greedy_request({1, 2, 3}, 5));
  rig.run();
  EXPECT_GT(refused, 0u);
}

TEST(PlanAhead, drops_the_share_of_a_sequence_that_has_ended) {
  // One ends by its text, which is known last; one by a token; one goes on.
  RigOptions options = ahead();
  options.sampler = "replay";
  options.sampler_options = "tokens=1 2 3 4 5 6 7 8";
  options.text = true;
  Rig rig(options);
  Request by_text = greedy_request({7}, 20), by_token = greedy_request({7, 7}, 20);
  by_text.stop = {"de"};
  by_token.stop_tokens = {5};
  rig.submit(by_text);
  rig.submit(by_token);
  rig.submit(greedy_request({7, 7, 7}, 8));
  rig.run();
  EXPECT_EQ(rig.result(1).text, "bc");
  EXPECT_EQ(rig.result(1).reason, FinishReason::stop);
  EXPECT_EQ(rig.result(2).text, "bcde");
  EXPECT_EQ(rig.result(3).text, "bcdefghi");
  EXPECT_EQ(rig.engine().last_fault(), "");
}

TEST(PlanAhead, ends_a_request_that_is_cancelled_in_flight) {
  const RigOptions options = ahead();
  Rig rig(options);
  const Request stays = greedy_request({1, 2, 3}, 30);
  rig.submit(stays);
  rig.submit(greedy_request({4, 5}, 30));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(rig.engine().step().ok());
  rig.engine().cancel(2);
  rig.run();
  EXPECT_EQ(rig.result(2).reason, FinishReason::cancelled);
  expect_oracle(rig, options, 1, stays);
}

TEST(PlanAhead, takes_back_what_was_planned_on_a_step_that_failed) {
  for (const bool at_launch : {false, true}) {
    const RigOptions options = ahead();
    Rig rig(options);
    auto& faults = rig.device().faults;
    (at_launch ? faults.launch_fails_at : faults.collect_fails_at) = 3;
    rig.submit(greedy_request({1, 2, 3}, 30));
    ASSERT_TRUE(rig.engine().step().ok());
    ASSERT_TRUE(rig.engine().step().ok());
    // Planned ahead together with the next token of the first, which fails.
    const Request later = greedy_request(std::vector<TokenId>(40, 5), 12);
    const RequestId id = rig.submit(later);
    rig.run();
    EXPECT_EQ(rig.result(1).reason, FinishReason::error);
    expect_oracle(rig, options, id, later);
    EXPECT_EQ(rig.engine().totals().forward_faults, 1u);
  }
}

TEST(PlanAhead, leaves_nothing_in_flight_when_an_engine_is_destroyed) {
  Rig rig(ahead());
  rig.submit(greedy_request({1, 2, 3}, 30));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(rig.engine().step().ok());
  EXPECT_FALSE(rig.engine().idle());
}

}  // namespace
}  // namespace tenon
