// Slices that run at once, and what happens where a thread cannot start.
#include "core/conformance/worlds/slices.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace tenon {
namespace {

TEST(Slices, the_first_error_is_returned_once_all_have_run) {
  std::atomic<uint32_t> runs = 0;
  const Status status = run_at_once(4, [&](uint32_t slice) {
    ++runs;
    return slice % 2 == 1 ? failed("slice " + std::to_string(slice)) : Status();
  });
  EXPECT_EQ(runs, 4u);
  EXPECT_EQ(status.message(), "slice 1");
}

// In a process of its own, whose user may have no further thread.
TEST(Slices, a_thread_that_cannot_start_is_an_error_and_nobody_waits_for_it) {
  constexpr int kError = 3, kNoLimit = 4;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    const rlimit one = {1, 1};
    const bool limited =
        setrlimit(RLIMIT_NPROC, &one) == 0 && (geteuid() != 0 || setuid(65534) == 0);
    if (!limited) _exit(kNoLimit);
    _exit(run_at_once(4, [](uint32_t) { return Status(); }).ok() ? 0 : kError);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNoLimit) GTEST_SKIP() << "this process may not give up its rights";
  EXPECT_EQ(WEXITSTATUS(status), kError);
}

}  // namespace
}  // namespace tenon
