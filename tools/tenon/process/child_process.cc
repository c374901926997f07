#include "tools/tenon/process/child_process.h"

#include <signal.h>
#include <sys/fcntl.h>
#include <sys/poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tenon {
namespace {

// How long a child may take to end once its input is closed, in steps of ten milliseconds.
constexpr int kPatienceSteps = 100;

Status system_error(const char* what) {
  return failed(std::string(what) + ": " + std::strerror(errno));
}

// In the child, after fork: only what is safe there.
[[noreturn]] void become(char* const* arguments, int in, int out) {
  ::setpgid(0, 0);
  if (::dup2(in, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0) {
    ::execv(arguments[0], arguments);
  }
  ::_exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0) return system_error("a pipe cannot be made");
  if (::pipe2(from, O_CLOEXEC) != 0) {
    const Status status = system_error("a pipe cannot be made");
    ::close(to[0]);
    ::close(to[1]);
    return copy(status);
  }
  const pid_t pid = ::fork();
  if (pid == 0) become(arguments.data(), to[0], from[1]);
  const int reason = errno;
  ::close(to[0]);
  ::close(from[1]);
  ChildProcess child(pid, to[1], from[0]);
  errno = reason;
  if (pid < 0) return system_error("a process cannot be started");
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::exchange(other.in_, -1)),
      out_(std::exchange(other.out_, -1)),
      read_(std::move(other.read_)),
      busy_(other.busy_) {}

ChildProcess::~ChildProcess() {
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0) ::close(out_);
  if (pid_ <= 0) return;
  if (busy_) ::kill(pid_, SIGKILL);  // nobody will read its answer
  for (int i = 0; i < kPatienceSteps; ++i) {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;
    ::usleep(10'000);
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Status ChildProcess::ended() {
  int how = 0;
  const pid_t pid = std::exchange(pid_, -1);
  if (pid <= 0 || ::waitpid(pid, &how, 0) != pid) return failed("it ended");
  if (WIFSIGNALED(how)) {
    return failed("it was ended by signal " + std::to_string(WTERMSIG(how)) + " (" +
                  ::strsignal(WTERMSIG(how)) + ")");
  }
  const int status = WEXITSTATUS(how);
  if (status == 127) return failed("it cannot be run");
  return failed("it ended with status " + std::to_string(status));
}

Status ChildProcess::write_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  busy_ = true;
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(in_, text.data() + done, text.size() - done);
    if (wrote > 0) {
      done += static_cast<size_t>(wrote);
    } else if (errno != EINTR) {
      return ended();
    }
  }
  return {};
}

Result<std::optional<std::string>> ChildProcess::read_line(const std::function<bool()>& go_on) {
  size_t searched = 0;
  for (;;) {
    if (const size_t end = read_.find('\n', searched); end != read_.npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      busy_ = false;
      return std::optional<std::string>(std::move(line));
    }
    searched = read_.size();
    if (!go_on()) return std::optional<std::string>();
    pollfd ready{.fd = out_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    char bytes[65536];
    const ssize_t got = ::read(out_, bytes, sizeof(bytes));
    if (got > 0) {
      read_.append(bytes, static_cast<size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return ended();
    }
  }
}

}  // namespace tenon
