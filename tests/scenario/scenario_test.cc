#include "tests/scenario/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folders.h"

namespace tenon {
namespace {

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_folder() + "/tests/scenario")) {
    if (entry.path().extension() == ".scenario") files.push_back(entry.path().stem());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class ScenarioFile : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioFile, goes_as_it_says) {
  std::ifstream in(source_folder() + "/tests/scenario/" + GetParam() + ".scenario");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(Scenario::run(text.str(), GetParam() + ".scenario"), "");
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioFile, testing::ValuesIn(scenario_files()),
                         [](const auto& made) { return made.param; });

TEST(ScenarioRunner, says_where_a_plan_differs) {
  EXPECT_EQ(Scenario::run("request A prompt=5\n\nstep A=4 # four\n", "x"),
            "x:3: the plan is 'A=5', expected 'A=4'");
}

TEST(ScenarioRunner, says_what_it_cannot_read) {
  EXPECT_EQ(Scenario::run("sheduler static\n", "x"), "x:1: 'sheduler static' is no setting");
  EXPECT_EQ(Scenario::run("request A promt=5\n", "x"),
            "x:1: 'promt' is nothing that a request has");
  EXPECT_EQ(Scenario::run("request A prompt=5\nexpect luck\n", "x"),
            "x:2: 'luck' cannot be expected");
  EXPECT_EQ(Scenario::run("request A prompt=5\nend A length 4\n", "x"), "x:2: A has not ended");
  EXPECT_EQ(Scenario::run("# only a comment\n", "x"), "x: nothing was run");
}

TEST(ScenarioRunner, reports_a_wrong_refusal) {
  EXPECT_THAT(Scenario::run("refused A prompt=5: no\n", "x"),
              testing::HasSubstr("the request was taken, expected 'no'"));
}

}  // namespace
}  // namespace tenon
