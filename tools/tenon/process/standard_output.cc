#include "tools/tenon/process/standard_output.h"

#include <signal.h>
#include <sys/fcntl.h>
#include <sys/poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
constexpr int kClosedPipeStatus = 141;  // what a shell says of a program that SIGPIPE ended

struct Output {
  std::string buffer;
  int error = 0;  // errno of what was lost
};
Output& output() {
  static Output instance;
  return instance;
}

// 0, or the errno that ended the writing.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {  // somebody made the terminal non-blocking
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return written == 0 ? EIO : errno;
    }
  }
  return 0;
}

}  // namespace

void guard_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one. In the other direction, so that using it still fails.
    static_cast<void>(::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY));
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void put(std::string_view text) {
  if (output_lost()) return;
  output().buffer += text;
  if (output().buffer.size() >= kBufferBytes) flush_output();
}

void putf(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string text(static_cast<size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  put(text);
}

void flush_output() {
  if (!output_lost()) output().error = write_all(STDOUT_FILENO, output().buffer);
  output().buffer.clear();
}

bool output_lost() {
  return output().error != 0;
}

int finish_output(int status) {
  flush_output();
  // Some file systems tell of a full disk only here.
  if (::close(STDOUT_FILENO) != 0 && !output_lost() && errno != EINTR) output().error = errno;
  if (!output_lost()) return status;
  if (output().error == EPIPE) return status == 0 ? kClosedPipeStatus : status;
  tell("standard output could not be written: " + std::string(std::strerror(output().error)) +
       "; what was printed is not complete");
  return status == 0 ? 1 : status;
}

void say(std::string_view line) {
  // Where standard error is closed or full there is nobody left to tell.
  write_all(STDERR_FILENO, printable(line, 2 * kMostMessageBytes) + "\n");
}

void tell(std::string_view message) {
  write_all(STDERR_FILENO, "tenon: " + printable(message, 2 * kMostMessageBytes) + "\n");
}

}  // namespace tenon
