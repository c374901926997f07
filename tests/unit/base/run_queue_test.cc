#include "core/base/machine/run_queue.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

TEST(RunQueue, waiting_times_of_all_threads_are_added_up) {
  const TemporaryFolder folder;
  folder.write_file("1/schedstat", "9000000000 1500000000 7\n");
  folder.write_file("2/schedstat", "1 500000000 7\n");
  folder.write_file("3/schedstat", "");
  folder.write_file("4/other", "1 1 1\n");
  EXPECT_DOUBLE_EQ(run_queue_seconds(folder.path()), 2.0);
}

TEST(RunQueue, a_system_that_says_nothing_is_no_waiting) {
  EXPECT_EQ(run_queue_seconds("/nowhere"), 0.0);
  EXPECT_EQ(LoadAverages("/nowhere").runnable_threads(), 0u);
}

TEST(RunQueue, what_one_thread_has_waited_is_read_each_time) {
  const TemporaryFolder folder;
  folder.write_file("schedstat", "9000000000 1500000000 7\n");
  const ThreadWait wait(folder.path("schedstat"));
  EXPECT_EQ(wait.now_ns(), 1'500'000'000);
  folder.write_file("schedstat", "9000000001 1500000250 8\n");
  EXPECT_EQ(wait.now_ns(), 1'500'000'250);
  EXPECT_EQ(ThreadWait("/nowhere").now_ns(), 0);
  folder.write_file("cut", "9000000000");
  EXPECT_EQ(ThreadWait(folder.path("cut")).now_ns(), 0);
}

TEST(RunQueue, threads_that_run_or_are_ready_to_are_read_from_the_averages_file) {
  const TemporaryFolder folder;
  folder.write_file("loadavg", "0.20 0.18 0.12 7/80 11206\n");
  folder.write_file("cut", "0.20 0.18");
  EXPECT_EQ(LoadAverages(folder.path() + "/loadavg").runnable_threads(), 7u);
  EXPECT_EQ(LoadAverages(folder.path() + "/cut").runnable_threads(), 0u);
  EXPECT_GE(LoadAverages().runnable_threads(), 1u) << "this one";
}

}  // namespace
}  // namespace tenon
