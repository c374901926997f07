#include "core/base/machine/other_programs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

// Two processors; times in ticks.
class OtherProgramsTest : public testing::Test {
 protected:
  void machine(int busy, int idle, int stolen) {
    const auto line = [&](const char* name) {
      return std::string(name) + " " + std::to_string(busy) + " 0 0 " + std::to_string(idle) +
             " 0 0 0 " + std::to_string(stolen) + " 0 0\n";
    };
    folder_.write_file("stat", line("cpu ") + line("cpu0") + line("cpu1") + "intr 1 2 3\n");
  }
  void program(int pid, const std::string& name, int parent, int user, int system,
               int of_ended = 0) {
    const std::string id = std::to_string(pid);
    folder_.write_file(id + "/stat", id + " (" + name + ") S " + std::to_string(parent) +
                                         " 1 1 0 -1 4 0 0 0 0 " + std::to_string(user) + " " +
                                         std::to_string(system) + " " + std::to_string(of_ended) +
                                         " 0\n");
  }

  const TemporaryFolder folder_;
  const int ticks_ = static_cast<int>(::sysconf(_SC_CLK_TCK));
};

TEST_F(OtherProgramsTest, are_what_this_one_and_its_arms_did_not_use) {
  OtherPrograms others(7, folder_.path());
  machine(1000, 1000, 0);
  program(7, "tenon", 1, 0, 0);
  program(8, "tenon", 7, 100, 0);    // an arm
  program(9, "a (b) c", 1, 50, 50);  // anybody's name
  others.sample();
  EXPECT_EQ(others.text(), "");
  // Ten seconds of two processors: 14 of 20 s are used, 2 of them by the arm, 8 by one other, and 4
  // by programs that nobody saw.
  machine(1000 + 14 * ticks_, 1000 + 4 * ticks_, 2 * ticks_);
  program(8, "tenon", 7, 100 + 2 * ticks_, 0);
  program(9, "a (b) c", 1, 50 + 5 * ticks_, 50 + 3 * ticks_);
  others.sample();
  EXPECT_EQ(others.text(),
            "other programs used 1.2 of 2 processors (a (b) c 0.8), and 0.2 processors' worth went "
            "to other guests of the host");
}

TEST_F(OtherProgramsTest, are_not_arms_that_began_and_ended_between_two_looks) {
  OtherPrograms others(7, folder_.path());
  machine(0, 1000, 0);
  program(7, "tenon", 1, 0, 0);
  program(8, "tenon", 7, 3 * ticks_, 0);
  others.sample();
  machine(8 * ticks_, 1000 + 12 * ticks_, 0);
  std::filesystem::remove_all(folder_.path("8"));
  program(7, "tenon", 1, 0, 0, 11 * ticks_);  // 3 s of them were before the first look
  others.sample();
  EXPECT_EQ(others.text(), "");
}

TEST_F(OtherProgramsTest, that_use_nothing_are_not_spoken_of) {
  OtherPrograms others(7, folder_.path());
  machine(0, 1000, 0);
  program(7, "tenon", 1, 0, 0);
  others.sample();
  machine(2 * ticks_, 1000 + 18 * ticks_, 0);
  program(7, "tenon", 1, 2 * ticks_, 0);
  others.sample();
  EXPECT_EQ(others.text(), "");
}

TEST(OtherPrograms, are_not_known_where_the_system_does_not_say) {
  OtherPrograms others(7, "/nowhere");
  others.sample();
  others.sample();
  EXPECT_EQ(others.text(), "");
}

}  // namespace
}  // namespace tenon
