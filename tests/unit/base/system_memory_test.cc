#include "core/base/system_memory.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

constexpr const char* kMeminfo = "MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable:    500 kB\n";

TEST(AvailableMemory, is_what_the_system_estimates) {
  const TemporaryFolder root;
  root.write_file("proc/meminfo", kMeminfo);
  EXPECT_EQ(available_memory_bytes_under(root.path()), 500u * 1024);
}

TEST(AvailableMemory, is_less_where_a_control_group_says_so) {
  const TemporaryFolder root;
  root.write_file("proc/meminfo", kMeminfo);
  root.write_file("sys/fs/cgroup/memory.max", "3000\n");
  root.write_file("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 2000u);
  root.write_file("sys/fs/cgroup/memory.current", "4000\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 0u);
  root.write_file("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 500u * 1024);
}

TEST(AvailableMemory, knows_the_older_control_groups) {
  const TemporaryFolder root;
  root.write_file("proc/meminfo", kMeminfo);
  root.write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  root.write_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "2000\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 3000u);
}

TEST(AvailableMemory, is_a_large_number_when_nothing_says) {
  EXPECT_EQ(available_memory_bytes_under("/nowhere"), uint64_t{INT64_MAX});
}

TEST(AvailableMemory, is_some_on_this_machine) {
  EXPECT_GT(available_memory_bytes(), 1u << 20);
}

}  // namespace
}  // namespace tenon
