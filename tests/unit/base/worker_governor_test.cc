#include "core/base/threads/worker_governor.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

constexpr uint64_t kMs = 1'000'000;

// A run of `wall_ns` in which each worker had a processor for all but the share `refused` of it.
RunCost run_of(uint32_t workers, uint64_t barriers, uint64_t wall_ns, double refused) {
  const auto lost = static_cast<uint64_t>(refused * static_cast<double>(wall_ns));
  return {.workers = workers,
          .barriers = barriers,
          .wall_ns = wall_ns,
          .cpu_ns = workers * (wall_ns - lost),
          .refused_ns = workers * lost};
}

// So many runs of 10 ms, each of which the governor decides after.
void add_runs(WorkerGovernor& governor, int count, uint64_t barriers, double refused) {
  for (int i = 0; i < count; ++i) {
    governor.add(run_of(governor.workers(), barriers, 10 * kMs, refused));
  }
}

TEST(WorkerGovernor, lets_all_workers_in_while_nobody_else_wants_the_processors) {
  WorkerGovernor governor(8);
  add_runs(governor, 100, 1000, 0.01);
  EXPECT_EQ(governor.workers(), 8u);
  EXPECT_FALSE(governor.crowded());
}

TEST(WorkerGovernor, calls_the_machine_crowded_after_one_window_of_refused_time) {
  WorkerGovernor governor(2);
  governor.add(run_of(2, 10, 1 * kMs, 0.5));
  EXPECT_FALSE(governor.crowded()) << "too little time to judge by";
  governor.add(run_of(2, 10, 10 * kMs, 0.5));
  EXPECT_TRUE(governor.crowded());
  add_runs(governor, 1, 10, 0.0);
  EXPECT_FALSE(governor.crowded());
}

TEST(WorkerGovernor, sends_workers_out_where_short_work_waits_for_those_that_are_refused) {
  WorkerGovernor governor(2);
  add_runs(governor, 1, 1000, 0.3);  // with two workers, one or the other is refused for 0.6
  EXPECT_EQ(governor.workers(), 2u) << "one late window may be chance";
  add_runs(governor, 1, 1000, 0.3);
  EXPECT_EQ(governor.workers(), 1u);
  add_runs(governor, 10, 1000, 0.6);
  EXPECT_EQ(governor.workers(), 1u);
}

TEST(WorkerGovernor, needs_no_second_window_where_hardly_any_step_is_made) {
  WorkerGovernor governor(2);
  add_runs(governor, 1, 1000, 0.45);
  EXPECT_EQ(governor.workers(), 1u);
}

TEST(WorkerGovernor, takes_what_the_run_queue_says_until_there_are_runs) {
  WorkerGovernor governor(2);
  governor.expect(4, 2);
  EXPECT_TRUE(governor.crowded());
  EXPECT_EQ(governor.workers(), 1u);
  add_runs(governor, 1, 20, 0.6);  // much work between two barriers
  EXPECT_EQ(governor.workers(), 2u);
  governor.expect(0, 2);
  EXPECT_FALSE(governor.crowded());
  EXPECT_EQ(governor.workers(), 2u);
}

TEST(WorkerGovernor, expects_as_many_workers_as_get_most_done_together) {
  WorkerGovernor governor(16);
  governor.expect(0, 16);
  EXPECT_EQ(governor.workers(), 16u);
  governor.expect(4, 16);
  EXPECT_EQ(governor.workers(), 12u) << "one processor each";
  governor.expect(64, 16);
  EXPECT_EQ(governor.workers(), 1u) << "a fifth of a processor each";
}

TEST(WorkerGovernor, expects_all_workers_where_fewer_would_gain_little) {
  WorkerGovernor governor(2);
  governor.expect(1, 2);
  EXPECT_EQ(governor.workers(), 2u) << "two thirds of a processor each: 0.89 of one processor";
  EXPECT_FALSE(governor.crowded());
  governor.expect(2, 2);
  EXPECT_EQ(governor.workers(), 1u) << "0.5 of one processor or 0.67";
}

TEST(WorkerGovernor, keeps_all_workers_where_much_work_lies_between_two_barriers) {
  WorkerGovernor governor(2);
  add_runs(governor, 10, 20, 0.6);  // 200 µs each, had they been there all the time
  EXPECT_EQ(governor.workers(), 2u);
  EXPECT_TRUE(governor.crowded());
}

TEST(WorkerGovernor, goes_down_by_halves_where_all_are_refused) {
  WorkerGovernor governor(16);
  add_runs(governor, 1, 1000, 0.6);
  EXPECT_EQ(governor.workers(), 8u);
  add_runs(governor, 1, 1000, 0.6);
  EXPECT_EQ(governor.workers(), 4u);
  add_runs(governor, 20, 1000, 0.6);
  EXPECT_EQ(governor.workers(), 1u);
}

TEST(WorkerGovernor, goes_down_by_few_where_one_of_many_is_refused) {
  WorkerGovernor governor(16);
  for (int i = 0; i < 2; ++i) {
    RunCost cost = run_of(16, 1000, 10 * kMs, 0.0);
    cost.refused_ns = 6 * kMs;
    cost.cpu_ns -= cost.refused_ns;
    governor.add(cost);
  }
  EXPECT_EQ(governor.workers(), 14u);
}

TEST(WorkerGovernor, brings_workers_back_once_those_that_remain_run_undisturbed) {
  WorkerGovernor governor(4);
  add_runs(governor, 2, 1000, 0.6);
  ASSERT_EQ(governor.workers(), 1u);
  add_runs(governor, 3, 1000, 0.0);
  EXPECT_EQ(governor.workers(), 1u) << "they were sent out twice, so 40 ms must pass";
  add_runs(governor, 1, 1000, 0.0);
  EXPECT_EQ(governor.workers(), 2u);
  add_runs(governor, 4, 1000, 0.0);
  EXPECT_EQ(governor.workers(), 4u);
}

TEST(WorkerGovernor, waits_longer_each_time_it_had_to_send_workers_out_again) {
  WorkerGovernor governor(2);
  int waited = 0;
  for (int times = 0; times < 10; ++times) {
    add_runs(governor, 2, 1000, 0.6);
    ASSERT_EQ(governor.workers(), 1u);
    for (waited = 0; governor.workers() == 1; ++waited) add_runs(governor, 1, 1000, 0.0);
  }
  EXPECT_EQ(waited, 64) << "640 ms at most";
  add_runs(governor, 110, 1000, 0.0);
  add_runs(governor, 2, 1000, 0.6);
  for (waited = 0; governor.workers() == 1; ++waited) add_runs(governor, 1, 1000, 0.0);
  EXPECT_EQ(waited, 2) << "a second of calm forgets what was";
}

}  // namespace
}  // namespace tenon
