#include "core/base/files/read_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

bool is_stream(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode));
}

}  // namespace

Result<std::string> read_to_end(int fd, const std::string& what, size_t limit_bytes) {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    const ssize_t count = ::read(fd, text.data() + before, kPieceBytes);
    if (count < 0 && errno != EINTR) {
      return failed("cannot read " + what + ": " + std::string(std::strerror(errno)));
    }
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (text.size() > limit_bytes) {
      return invalid_argument(what + " has more than " +
                              format_bytes(static_cast<int64_t>(limit_bytes)) +
                              ", which is all that is read here; give less, or in parts");
    }
  }
}

Result<std::string> read_file_or_pipe(const std::string& path, size_t limit_bytes) {
  if (!is_stream(path)) return read_text_file(path, limit_bytes);
  // Opened without waiting for a writer, read with waiting for what it writes.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed("cannot open " + path_in_quotes(path) + ": " + std::strerror(errno));
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  Result<std::string> text = read_to_end(fd, path_in_quotes(path), limit_bytes);
  ::close(fd);
  return text;
}

}  // namespace tenon
