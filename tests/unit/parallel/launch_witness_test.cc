#include "core/parallel/mpi/launch_witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// What a launcher of three ranks has on its standard error, and how it ended.
struct Launch {
  std::string said;
  int status = 0;
};
[[noreturn]] void be_rank(int rank) {
  const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  char* const environment[] = {const_cast<char*>(variable.c_str()), nullptr};
  execle("/bin/sleep", "sleep", "60", nullptr, environment);
  _exit(1);
}
// It has a descriptor of its launcher, and one of each rank that it has seen and that runs.
void wait_until_seen(const std::string& witness, uint32_t ranks) {
  const std::filesystem::path folder = std::filesystem::path(witness).parent_path();
  for (uint32_t seen = 0; seen != 1 + ranks; std::this_thread::yield()) {
    seen = 0;
    std::error_code error;
    for (const auto& each : std::filesystem::directory_iterator(folder, error)) {
      const std::string what = std::filesystem::read_symlink(each.path(), error).string();
      seen += what.find("pidfd") != what.npos ? 1 : 0;
    }
  }
}
// What the launcher does.
struct Script {
  int lost = 1;                // this rank is ended
  int number = SIGKILL;        // so,
  int others = SIGTERM;        // and then the others so;
  bool is_late = false;        // the witness does not run meanwhile;
  int status = 128 + SIGKILL;  // then it ends so; -1: it stays
  bool claims = false;         // somebody says why the run ends
};
[[noreturn]] void launch(const Script& script) {
  start_launch_witness(3);
  const std::string witness = std::getenv("TENON_LAUNCH_WITNESS");
  std::vector<pid_t> ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    pid_t& process = ranks[static_cast<size_t>(rank)];
    process = fork();
    if (process == 0) be_rank(rank);
  }
  wait_until_seen(witness, 3);
  remember_witness();
  if (script.claims && claim_last_word() != std::optional(true)) _exit(77);
  const auto end = [&](int rank, int signal) {
    kill(ranks[static_cast<size_t>(rank)], signal);
    waitpid(ranks[static_cast<size_t>(rank)], nullptr, 0);
  };
  const pid_t watching = std::atoi(witness.c_str() + std::strlen("/proc/"));
  if (script.is_late) kill(watching, SIGSTOP);
  end(script.lost, script.number);
  if (!script.is_late) wait_until_seen(witness, 2);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank != script.lost) end(rank, script.others);
  }
  if (script.is_late) kill(watching, SIGCONT);
  while (script.status < 0) pause();
  _exit(script.status);
}
Launch launched(const Script& script) {
  int error[2];
  EXPECT_EQ(pipe(error), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    dup2(error[1], STDERR_FILENO);
    close(error[0]);
    close(error[1]);
    launch(script);
  }
  close(error[1]);
  Launch ended;
  char part[400];
  for (ssize_t bytes; (bytes = read(error[0], part, sizeof(part))) > 0;) {
    ended.said.append(part, static_cast<size_t>(bytes));
  }
  close(error[0]);
  EXPECT_EQ(waitpid(launcher, &ended.status, 0), launcher);
  return ended;
}

TEST(LaunchWitnessTest, names_the_rank_that_was_lost_first_where_nobody_else_does) {
  const Launch ended = launched({});
  EXPECT_THAT(ended.said, StartsWith("tenon: rank 1 on "));
  EXPECT_THAT(ended.said, HasSubstr(") has ended before the ranks had met: it was killed"));
  EXPECT_EQ(WEXITSTATUS(ended.status), 128 + SIGKILL);
}

TEST(LaunchWitnessTest, knows_which_rank_was_lost_first_however_late_it_looks) {
  for (int lost = 0; lost < 3; ++lost) {
    for (const int others : {SIGTERM, SIGKILL}) {
      const Launch ended = launched({.lost = lost, .others = others, .is_late = true});
      EXPECT_THAT(ended.said, StartsWith("tenon: rank " + std::to_string(lost) + " on "));
      EXPECT_THAT(ended.said, HasSubstr("it was killed by SIGKILL; the run ends"));
    }
  }
}

TEST(LaunchWitnessTest, says_nothing_where_somebody_has_and_where_all_went_well) {
  EXPECT_EQ(launched({.claims = true}).said, "");
  EXPECT_EQ(launched({.number = SIGTERM, .status = 0}).said, "");
}

// 255 is no signal's status: other launchers end so.
TEST(LaunchWitnessTest, says_nothing_where_the_launchers_status_is_of_no_signal) {
  EXPECT_EQ(launched({.status = 255}).said, "");
}

TEST(LaunchWitnessTest, says_nothing_where_a_launcher_was_told_to_end_all_of_them) {
  EXPECT_EQ(launched({.number = SIGTERM, .is_late = true, .status = 128 + SIGTERM}).said, "");
}

TEST(LaunchWitnessTest, ends_a_launcher_that_stays_although_all_ranks_have_ended) {
  const Launch ended = launched({.status = -1, .claims = true});
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL);
  EXPECT_EQ(ended.said, "");
}

TEST(LaunchWitnessTest, there_is_nothing_to_claim_without_one) {
  EXPECT_EQ(claim_last_word(), std::nullopt);
}

}  // namespace
}  // namespace tenon
