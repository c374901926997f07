#include "core/base/machine/system_memory.h"

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

TEST(AvailableMemory, counts_files_that_a_group_gives_back) {
  const TemporaryFolder root;
  root.write_file("proc/meminfo", kMeminfo);
  root.write_file("sys/fs/cgroup/memory.max", "3000\n");
  root.write_file("sys/fs/cgroup/memory.current", "1000\n");
  root.write_file("sys/fs/cgroup/memory.stat", "anon 100\ninactive_file 600\nactive_file 300\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 2600u);
}

// A service's limit stands in its own group, not at the root.
TEST(AvailableMemory, looks_at_the_groups_that_this_process_is_in) {
  const TemporaryFolder root;
  root.write_file("proc/meminfo", kMeminfo);
  root.write_file("proc/self/cgroup", "0::/some.slice/tenon.service\n");
  root.write_file("sys/fs/cgroup/some.slice/memory.max", "70000\n");
  root.write_file("sys/fs/cgroup/some.slice/memory.current", "10000\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 60000u);
  EXPECT_EQ(total_memory_bytes_under(root.path()), 70000u);
  root.write_file("sys/fs/cgroup/some.slice/tenon.service/memory.max", "5000\n");
  root.write_file("sys/fs/cgroup/some.slice/tenon.service/memory.current", "2000\n");
  EXPECT_EQ(available_memory_bytes_under(root.path()), 3000u);
  EXPECT_EQ(total_memory_bytes_under(root.path()), 5000u);
}

TEST(AvailableMemory, looks_at_them_in_the_older_control_groups_too) {
  const TemporaryFolder root;
  root.write_file("proc/self/cgroup", "7:cpu,cpuacct:/a\n5:hugetlb,memory:/b/c\n");
  root.write_file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
  root.write_file("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "9000\n");
  EXPECT_EQ(total_memory_bytes_under(root.path()), 9000u);
}

TEST(TotalMemory, is_what_the_machine_has_or_a_control_group_allows) {
  const TemporaryFolder root;
  root.write_file("proc/meminfo", kMeminfo);
  EXPECT_EQ(total_memory_bytes_under(root.path()), 900u * 1024);
  root.write_file("sys/fs/cgroup/memory.max", "3000\n");
  EXPECT_EQ(total_memory_bytes_under(root.path()), 3000u);
  EXPECT_EQ(total_memory_bytes_under("/nowhere"), uint64_t{INT64_MAX});
  EXPECT_GE(total_memory_bytes(), available_memory_bytes());
}

TEST(AvailableMemory, is_a_large_number_when_nothing_says) {
  EXPECT_EQ(available_memory_bytes_under("/nowhere"), uint64_t{INT64_MAX});
}

TEST(AvailableMemory, is_some_on_this_machine) {
  EXPECT_GT(available_memory_bytes(), 1u << 20);
}

}  // namespace
}  // namespace tenon
