#include "tools/tenon/standard_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/base/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "tools/tenon/flags.h"

namespace tenon {

namespace {

// All that can be read from `fd`, called `what` in messages.
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

bool is_stream(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode));
}

}  // namespace

Result<std::string> read_standard_input(size_t limit_bytes) {
  return read_to_end(STDIN_FILENO, "standard input", limit_bytes);
}

Result<std::string> read_given_text(const std::string& path) {
  if (path == "-") return read_standard_input();
  // Without O_NONBLOCK the program would wait for somebody to write to a FIFO.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool stream = fd >= 0 && is_stream(fd);
  if (!stream) {
    if (fd >= 0) ::close(fd);
    return read_text_file(path);
  }
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  Result<std::string> text = read_to_end(fd, path_in_quotes(path), kMostInputBytes);
  ::close(fd);
  return text;
}

void InputLimit::add_to(CLI::App& command) {
  command.add_option_function<std::string>(
      "--input-limit",
      [this](const std::string& text) {
        const std::optional<int64_t> bytes = parse_bytes(text);
        const bool fits = bytes && *bytes > 0;
        refuse("--input-limit", fits ? ""
                                     : in_quotes(text) +
                                           " is no size; expected a number with a unit, for "
                                           "example 1GiB");
        limit_bytes_ = static_cast<size_t>(*bytes);
      },
      "most bytes of standard input, for example 1GiB (default: " +
          format_bytes(static_cast<int64_t>(kMostInputBytes)) + ")");
}

Result<std::string> InputLimit::read() const {
  Result<std::string> text = read_standard_input(limit_bytes_);
  if (text.ok() || text.status().code() != StatusCode::invalid_argument) return text;
  return invalid_argument(message_of(text.status()) + ", or raise --input-limit");
}

}  // namespace tenon
