#include "core/base/files/read_stream.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

// A pipe that holds `text` and whose writer is gone, as its path.
class FullPipe {
 public:
  explicit FullPipe(const std::string& text) {
    EXPECT_EQ(::pipe(ends_), 0);
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends_[1]);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  ~FullPipe() { ::close(ends_[0]); }
  std::string path() const { return "/dev/fd/" + std::to_string(ends_[0]); }

 private:
  int ends_[2] = {-1, -1};
};

TEST(ReadStream, files_and_pipes_are_read_alike) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("text")) << "The king";
  EXPECT_EQ(*read_file_or_pipe(folder.path("text"), 8), "The king");
  EXPECT_EQ(*read_file_or_pipe(FullPipe("The king").path(), 8), "The king");
  EXPECT_EQ(*read_file_or_pipe("/dev/null", 8), "");
}

TEST(ReadStream, a_pipe_without_a_writer_is_empty) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(*read_file_or_pipe(folder.path("fifo"), 8), "");
}

TEST(ReadStream, what_is_too_long_or_no_text_is_refused) {
  const TemporaryFolder folder;
  const FullPipe pipe("The king and I");
  EXPECT_EQ(read_file_or_pipe(pipe.path(), 8).status().message(),
            "'" + pipe.path() +
                "' has more than 8B, which is all that is read here; give less, or in parts");
  EXPECT_FALSE(read_file_or_pipe("/dev/zero", 1 << 20).ok());
  EXPECT_EQ(read_file_or_pipe(folder.path("."), 8).status().message(),
            "'" + folder.path(".") + "' is not a regular file");
  EXPECT_EQ(read_file_or_pipe(folder.path("none"), 8).status().code(), StatusCode::not_found);
}

}  // namespace
}  // namespace tenon
