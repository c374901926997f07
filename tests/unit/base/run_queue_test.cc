#include "core/base/run_queue.h"

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
}

}  // namespace
}  // namespace tenon
