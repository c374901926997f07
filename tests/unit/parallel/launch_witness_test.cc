#include "core/parallel/mpi/launch_witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A launcher that starts three ranks, of which rank 1 is ended by `number`, then ends with
// `status`, or stays (-1). What comes on its standard error, and how it ended.
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
[[noreturn]] void launch(int number, int status, bool claims) {
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
  if (claims && claim_last_word() != std::optional(true)) _exit(77);
  kill(ranks[1], number);
  waitpid(ranks[1], nullptr, 0);
  wait_until_seen(witness, 2);
  for (const size_t rank : {0u, 2u}) {
    kill(ranks[rank], SIGTERM);
    waitpid(ranks[rank], nullptr, 0);
  }
  while (status < 0) pause();
  _exit(status);
}
Launch launched(int number, int status, bool claims = false) {
  int error[2];
  EXPECT_EQ(pipe(error), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    dup2(error[1], STDERR_FILENO);
    close(error[0]);
    close(error[1]);
    launch(number, status, claims);
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
  const Launch ended = launched(SIGKILL, 137);
  EXPECT_THAT(ended.said, StartsWith("tenon: rank 1 on "));
  EXPECT_THAT(ended.said, HasSubstr(") has ended before the ranks had met: it was killed"));
  EXPECT_EQ(WEXITSTATUS(ended.status), 137);
}

TEST(LaunchWitnessTest, says_nothing_where_somebody_has_and_where_all_went_well) {
  EXPECT_EQ(launched(SIGKILL, 137, true).said, "");
  EXPECT_EQ(launched(SIGTERM, 0).said, "");
}

TEST(LaunchWitnessTest, ends_a_launcher_that_stays_although_all_ranks_have_ended) {
  const Launch ended = launched(SIGKILL, -1, true);
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL);
  EXPECT_EQ(ended.said, "");
}

TEST(LaunchWitnessTest, there_is_nothing_to_claim_without_one) {
  EXPECT_EQ(claim_last_word(), std::nullopt);
}

}  // namespace
}  // namespace tenon
