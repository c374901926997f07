#include "core/base/files/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "core/base/files/mapped_file.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

class NewFiles : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder_.path(name); }
  std::string text(const char* name) const { return *read_text_file(path(name)); }
  std::set<std::string> names() const { return names_in(folder_.path("")); }

  TemporaryFolder folder_;
};

TEST_F(NewFiles, a_file_appears_only_when_it_is_kept) {
  auto file = NewFile::create(path("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->append("whole").ok());
  EXPECT_FALSE(fs::exists(path("a")));
  ASSERT_TRUE(file->keep(Existing::replace).ok());
  EXPECT_EQ(text("a"), "whole");
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

TEST_F(NewFiles, a_file_that_is_not_kept_leaves_nothing_and_the_old_one_alone) {
  ASSERT_TRUE(write_file(path("a"), {"old"}).ok());
  {
    auto file = NewFile::create(path("a"));
    ASSERT_TRUE(file->append("half of the ne").ok());
  }
  EXPECT_EQ(text("a"), "old");
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

TEST_F(NewFiles, two_writers_of_one_name_do_not_share_a_byte) {
  auto one = NewFile::create(path("a"));
  auto two = NewFile::create(path("a"));
  ASSERT_TRUE(one->append("1111").ok());
  ASSERT_TRUE(two->append("22").ok());
  ASSERT_TRUE(one->keep(Existing::refuse).ok());
  EXPECT_EQ(text("a"), "1111");
  const Status refused = two->keep(Existing::refuse);
  EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.message().find("already there"), std::string_view::npos);
  EXPECT_EQ(text("a"), "1111");
}

TEST_F(NewFiles, a_link_stays_a_link_and_permissions_stay) {
  ASSERT_TRUE(write_file(path("real"), {"old"}).ok());
  fs::permissions(path("real"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", path("link"));
  ASSERT_TRUE(write_file(path("link"), {"new"}).ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text("real"), "new");
  EXPECT_EQ(fs::status(path("real")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(NewFiles, a_device_is_written_directly_and_its_errors_are_told) {
  EXPECT_TRUE(write_file("/dev/null", {"text"}).ok());
  const Status full = write_file("/dev/full", {"text"});
  EXPECT_NE(full.message().find("No space left"), std::string_view::npos) << full.message();
}

TEST_F(NewFiles, a_folder_and_a_missing_folder_are_refused) {
  EXPECT_NE(write_file(path(""), {"x"}).message().find("it is a folder"), std::string_view::npos);
  EXPECT_FALSE(write_file(path("none/a"), {"x"}).ok());
}

TEST_F(NewFiles, a_name_that_is_as_long_as_possible_can_be_written) {
  const std::string name(255, 'n');
  ASSERT_TRUE(write_file(folder_.path(name), {"x"}).ok());
  EXPECT_EQ(names(), std::set<std::string>{name});
}

TEST_F(NewFiles, a_limit_of_the_file_size_is_an_error_and_leaves_nothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = write_file(path("a"), {std::string(5000, 'x')});
    ::_exit(status.message().find("File too large") != std::string_view::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(names().empty());
}

TEST_F(NewFiles, what_is_unfinished_is_removed_with_its_folder_when_the_program_ends) {
  const pid_t child = ::fork();
  if (child == 0) {
    static const char* const kInside[] = {"weights", "config"};
    const auto folder = NewFolder::create(path("model"), kInside);
    auto unfinished = NewFile::create(path("model/weights"));
    if (!write_file(path("model/config"), {"{}"}).ok()) ::_exit(1);
    if (!write_file(path("finished"), {"x"}).ok()) ::_exit(1);
    remove_unfinished();
    ::_exit(unfinished.ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(names(), std::set<std::string>{"finished"});
}

TEST_F(NewFiles, a_folder_that_was_there_before_stays) {
  static const char* const kInside[] = {"config"};
  fs::create_directory(path("model"));
  ASSERT_TRUE(write_file(path("model/config"), {"{}"}).ok());
  { EXPECT_TRUE(NewFolder::create(path("model"), kInside).ok()); }
  EXPECT_EQ(text("model/config"), "{}");
  {
    EXPECT_TRUE(NewFolder::create(path("deep/er/"), kInside).ok());
    const auto folder = NewFolder::create(path("other"), kInside);
    ASSERT_TRUE(write_file(path("other/config"), {"{}"}).ok());
  }
  EXPECT_FALSE(fs::exists(path("other")));
  EXPECT_TRUE(fs::exists(path("deep")));
}

TEST_F(NewFiles, one_program_at_a_time_writes_into_a_folder) {
  static const char* const kInside[] = {"config"};
  auto mine = NewFolder::create(path("model"), kInside);
  ASSERT_TRUE(mine.ok());
  const auto other = NewFolder::create(path("model"), kInside);
  EXPECT_NE(other.status().message().find("another program is writing"), std::string_view::npos);
  mine->keep();
  EXPECT_TRUE(fs::exists(path("model")));
}

}  // namespace
}  // namespace tenon
