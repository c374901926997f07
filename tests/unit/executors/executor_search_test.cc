#include "core/executors/executor_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kFolders = {build_folder() + "/tests/executors"};

std::string message_of(std::string_view name) {
  const auto found = find_executor(name, kFolders);
  return found.ok() ? "" : std::string(found.status().message());
}

TEST(ExecutorSearch, makes_an_executor_from_a_library_of_this_build) {
  const auto factory = find_executor("toy", kFolders);
  ASSERT_TRUE(factory.ok()) << factory.status().message();
  const auto made = (*factory)(HostFacts());
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ((*made)->name(), "ref");
}

TEST(ExecutorSearch, sends_what_a_library_logs_where_the_program_logs) {
  const auto factory = find_executor("toy", kFolders);
  ASSERT_TRUE(factory.ok()) << factory.status().message();
  std::vector<std::string> lines;
  const LogLevel before = log_level();
  set_log_sink([&](LogLevel, std::string_view component, std::string_view text) {
    lines.push_back(std::string(component) + ": " + std::string(text));
  });
  ASSERT_TRUE((*factory)(HostFacts()).ok());
  EXPECT_THAT(lines, testing::IsEmpty()) << "the program's level decides";
  set_log_level(LogLevel::info);
  ASSERT_TRUE((*factory)(HostFacts()).ok());
  EXPECT_THAT(lines, testing::ElementsAre("toy: made"));
  set_log_level(before);
  set_log_sink({});
}

TEST(ExecutorSearch, says_that_an_executor_is_not_installed_and_where_it_looked) {
  const auto found = find_executor("cuda", kFolders);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), StatusCode::not_found);
  EXPECT_EQ(
      found.status().message(),
      "the executor \"cuda\" is not installed here: there is no libtenon-executor-cuda.so in " +
          kFolders[0]);
}

TEST(ExecutorSearch, takes_no_path_for_a_name) {
  EXPECT_THAT(message_of("../executors/toy"), HasSubstr("is not installed here"));
}

TEST(ExecutorSearch, refuses_another_build_before_its_code_runs) {
  EXPECT_THAT(message_of("stale"), HasSubstr("its stamp is 0123456789abcdef, this program's is "));
}

TEST(ExecutorSearch, says_why_an_installed_executor_cannot_run) {
  const auto factory = find_executor("driverless", kFolders);
  ASSERT_TRUE(factory.ok()) << factory.status().message();
  const auto made = (*factory)(HostFacts());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::unsupported);
  EXPECT_EQ(made.status().message(),
            "the executor \"driverless\" is installed, but there is no driver for its device; "
            "install one");
}

TEST(ExecutorSearch, looks_beside_the_plugins) {
  EXPECT_THAT(executor_folders_beside("/opt/tenon/bin/tenon"),
              testing::ElementsAre(testing::MatchesRegex("/opt/tenon/lib.*/tenon/executors")));
}

}  // namespace
}  // namespace tenon
