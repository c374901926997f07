#include "core/parallel/process_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace tenon {
namespace {

// What is said of a child that ends by `number`, or itself with status 3 (0), before its parent
// asks, and afterwards.
struct Said {
  std::string before, after;
};
Said said_of_child(int number) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (number == 0) _exit(3);
    signal(number, SIG_DFL);
    raise(number);
    _exit(4);
  }
  const int descriptor = process_descriptor(child);
  EXPECT_GE(descriptor, 0);
  pollfd asked{.fd = descriptor, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&asked, 1, -1), 1);
  Said said;
  said.before = how_it_ended(wait_status_of(descriptor, child), killed_for_memory());
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  said.after = how_it_ended(wait_status_of(descriptor, child), killed_for_memory());
  close(descriptor);
  return said;
}

// Where the kernel does not tell of a process that nobody has to ask for any more.
constexpr const char* kUnknown = "it was killed, or it crashed";

TEST(ProcessEndTest, names_the_signal_that_ended_a_process_and_the_status_that_it_gave) {
  for (const auto& [number, words] : {std::pair(SIGKILL, "it was killed by SIGKILL"),
                                      std::pair(SIGSEGV, "it crashed with SIGSEGV"),
                                      std::pair(SIGTERM, "it was killed by SIGTERM"),
                                      std::pair(SIGUSR1, "it was killed by signal 10"),
                                      std::pair(0, "it ended itself, with status 3")}) {
    const Said said = said_of_child(number);
    EXPECT_EQ(said.before, words);
    EXPECT_THAT(said.after, testing::AnyOf(words, kUnknown));
  }
}

TEST(ProcessEndTest, a_file_of_a_process_that_cannot_be_read_is_empty) {
  EXPECT_THAT(process_text("/proc/self/comm"), testing::EndsWith("\n"));
  EXPECT_EQ(process_text("/proc/self/fd"), "");  // reading fails, as of one that ends meanwhile
  EXPECT_EQ(process_text("/proc/0/stat"), "");
  const pid_t child = fork();
  if (child == 0) _exit(0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(process_text("/proc/" + std::to_string(child) + "/stat"), "");
}

TEST(ProcessEndTest, says_nothing_of_a_process_that_runs) {
  const int descriptor = process_descriptor(getpid());
  EXPECT_EQ(wait_status_of(descriptor, getpid()), std::nullopt);
  close(descriptor);
  EXPECT_EQ(how_it_ended(std::nullopt, 0), kUnknown);
}

TEST(ProcessEndTest, tells_killing_for_memory_from_killing) {
  EXPECT_EQ(how_it_ended(SIGKILL, killed_for_memory()), "it was killed by SIGKILL");
  if (killed_for_memory() > 0) {
    EXPECT_EQ(how_it_ended(SIGKILL, killed_for_memory() - 1),
              "the system killed it for want of memory");
  }
  EXPECT_TRUE(is_violent(SIGKILL));
  EXPECT_TRUE(is_violent(SIGSEGV | 0x80));
  EXPECT_FALSE(is_violent(SIGTERM));
  EXPECT_FALSE(is_violent(3 << 8));
}

}  // namespace
}  // namespace tenon
