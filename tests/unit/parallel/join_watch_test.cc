#include "core/parallel/mpi/join_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>

#include "core/parallel/mpi/launched_processes.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// A launcher with three children: two that it calls ranks 1 and 2, and one that watches as rank 0.
// What that one says of rank 1, of which `act` has done something. `end`: of the launcher, which
// waits for ever.
void kill_launcher(pid_t launcher) {
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
}
std::string said_of_rank_1(const std::function<void(pid_t)>& act,
                           const std::function<void(pid_t)>& end = kill_launcher,
                           const char* name = "launcher") {
  int to_test[2], ranks[2];
  EXPECT_EQ(pipe(to_test), 0);
  EXPECT_EQ(pipe(ranks), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    prctl(PR_SET_NAME, name);
    for (const char* rank : {"1", "2"}) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const std::string variable = std::string("OMPI_COMM_WORLD_RANK=") + rank;
        char* const environment[] = {const_cast<char*>(variable.c_str()), nullptr};
        execle("/bin/sleep", "sleep", "60", nullptr, environment);
        _exit(1);
      }
      if (write(ranks[1], &child, sizeof(child)) != sizeof(child)) _exit(1);
    }
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const JoinWatch watch(0, 3, [&](const std::string& fault, bool speaks) {
        const std::string said = (speaks ? "" : "silent: ") + fault;
        static_cast<void>(!write(to_test[1], said.data(), said.size()));
        end_launcher_if_it_stays();
        _exit(0);
      });
      while (watch.found() < 2) std::this_thread::yield();
      static_cast<void>(!write(to_test[1], ".", 1));
      for (;;) pause();
    }
    for (;;) pause();
  }
  pid_t first = 0;
  EXPECT_EQ(read(ranks[0], &first, sizeof(first)), static_cast<ssize_t>(sizeof(first)));
  char said[400];
  EXPECT_EQ(read(to_test[0], said, 1), 1);  // it knows both
  act(first);
  const ssize_t bytes = read(to_test[0], said, sizeof(said));
  end(launcher);
  for (const int one : {to_test[0], to_test[1], ranks[0], ranks[1]}) close(one);
  return {said, static_cast<size_t>(std::max<ssize_t>(bytes, 0))};
}

TEST(JoinWatchTest, names_a_rank_that_was_killed_before_all_had_come) {
  const std::string said = said_of_rank_1([](pid_t rank) { kill(rank, SIGKILL); });
  EXPECT_THAT(said, testing::StartsWith("rank 1 on "));
  EXPECT_THAT(said, HasSubstr(") has ended before the ranks had met: it was killed"));
}

TEST(JoinWatchTest, ends_a_launcher_that_stays_although_all_ranks_end) {
  int status = 0;
  const std::string said =
      said_of_rank_1([](pid_t rank) { kill(rank, SIGKILL); },
                     [&](pid_t launcher) { EXPECT_EQ(waitpid(launcher, &status, 0), launcher); },
                     "mpirun.openmpi");
  EXPECT_THAT(said, testing::StartsWith("rank 1 on "));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(JoinWatchTest, names_a_rank_that_is_stopped_before_all_had_come) {
  const std::string said = said_of_rank_1([](pid_t rank) { kill(rank, SIGSTOP); });
  EXPECT_THAT(said, testing::StartsWith("rank 1 on "));
  EXPECT_THAT(said, HasSubstr(") has not run for 5 s, before the ranks had met: it is stopped"));
}

}  // namespace
}  // namespace tenon
