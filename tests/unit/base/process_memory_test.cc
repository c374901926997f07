#include "core/base/machine/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

TEST(ProcessMemory, is_read_from_the_sums_of_all_mappings) {
  const ProcessMemory memory = process_memory_in(
      "5581e0000000-7ffd5b3c9000 ---p 00000000 00:00 0    [rollup]\n"
      "Rss:             1000 kB\n"
      "Pss_Anon:           1 kB\n"
      "Anonymous:        600 kB\n"
      "AnonHugePages:    512 kB\n");
  EXPECT_EQ(memory.anonymous_bytes, 600u * 1024);
  EXPECT_EQ(memory.huge_bytes, 512u * 1024);
  EXPECT_EQ(memory.file_bytes, 400u * 1024);
}

TEST(ProcessMemory, grows_by_what_the_process_touches) {
  constexpr size_t kBytes = size_t{32} << 20;
  const uint64_t before = process_memory().anonymous_bytes;
  if (before == 0) GTEST_SKIP() << "this system does not tell";
  const std::vector<char> touched(kBytes, 1);
  const uint64_t after = process_memory().anonymous_bytes;
  EXPECT_GE(after, before + kBytes / 10 * 9 + static_cast<size_t>(touched[0]));
}

TEST(ProcessMemory, is_zero_where_the_system_does_not_tell) {
  EXPECT_EQ(process_memory_in("").anonymous_bytes, 0u);
  EXPECT_EQ(process_memory_in("Anonymous: plenty").anonymous_bytes, 0u);
}

}  // namespace
}  // namespace tenon
