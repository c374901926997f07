#include "tools/tenon/process/case_process.h"

#include <signal.h>
#include <sys/fcntl.h>
#include <sys/poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

namespace tenon {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;    // that are kept of either output
constexpr rlim_t kMostMemory = rlim_t{16} << 30;  // of its own; a store may map larger files

#if defined(__has_feature)
#define TENON_HAS_FEATURE(name) __has_feature(name)
#else
#define TENON_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    TENON_HAS_FEATURE(address_sanitizer) || TENON_HAS_FEATURE(thread_sanitizer)
constexpr bool kWatchedBySanitizer = true;
#else
constexpr bool kWatchedBySanitizer = false;
#endif

using Steady = std::chrono::steady_clock;

// As exec takes them; borrows the texts.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> made;
  for (const std::string& text : texts) made.push_back(const_cast<char*>(text.c_str()));
  made.push_back(nullptr);
  return made;
}

// In the child, after fork: only what is safe there.
[[noreturn]] void become_case(char* const* arguments, char* const* environment, int out,
                              int errors) {
  ::setpgid(0, 0);
  if (::dup2(out, STDOUT_FILENO) >= 0 && ::dup2(errors, STDERR_FILENO) >= 0) {
    ::execve(arguments[0], arguments, environment);
  }
  ::_exit(127);
}

struct Pipe {
  int read = -1, write = -1;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = ends[0], write = ends[1];
    return true;
  }
  void close_write() { close_end(write); }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }

 private:
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

// Takes what can be read; false at the end.
bool take(int from, std::string& to) {
  char bytes[16384];
  const ssize_t got = ::read(from, bytes, sizeof(bytes));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (to.size() < kMostBytes) to.append(bytes, static_cast<size_t>(got));
  return got > 0;
}

// Both outputs to their ends, or until a limit is over.
TimeLimit read_all(const Pipe& out, const Pipe& errors, ProcessTime& time, EndedProcess& ended) {
  constexpr int kLookMs = 50;
  bool out_open = true, errors_open = true;
  while (out_open || errors_open) {
    if (const TimeLimit over = time.look(); over != TimeLimit::none) return over;
    pollfd ready[2] = {{out_open ? out.read : -1, POLLIN, 0},
                       {errors_open ? errors.read : -1, POLLIN, 0}};
    if (::poll(ready, 2, kLookMs) <= 0) continue;
    if (ready[0].revents != 0) out_open = take(out.read, ended.output);
    if (ready[1].revents != 0) errors_open = take(errors.read, ended.errors);
  }
  return TimeLimit::none;
}

}  // namespace

std::vector<std::string> case_environment() {
  constexpr std::string_view kTunables = "GLIBC_TUNABLES=";
  std::string tunables(kTunables);
  std::vector<std::string> made;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable(*one);
    if (!variable.starts_with(kTunables)) {
      made.emplace_back(variable);
    } else if (variable.size() > kTunables.size()) {
      tunables = std::string(variable) + ":";
    }
  }
  made.push_back(tunables + "glibc.malloc.tcache_count=0");
  return made;
}

Result<EndedProcess> run_process(const std::vector<std::string>& command, const TimeLimits& limits,
                                 const std::vector<std::string>& variables) {
  const std::vector<char*> arguments = pointers_to(command), given = pointers_to(variables);
  char* const* const environment = variables.empty() ? environ : given.data();
  Pipe out, errors;
  if (!out.open() || !errors.open()) {
    return failed(std::string("a pipe cannot be made: ") + std::strerror(errno));
  }
  const auto begin = Steady::now();
  const pid_t pid = ::fork();
  if (pid == 0) become_case(arguments.data(), environment, out.write, errors.write);
  if (pid < 0) return failed(std::string("a process cannot be started: ") + std::strerror(errno));
  out.close_write();
  errors.close_write();
  EndedProcess ended;
  ProcessTime time(pid, limits);
  ended.limit = read_all(out, errors, time, ended);
  ended.computed_seconds = time.computed();
  ended.waited_seconds = time.waited();
  const bool in_time = ended.limit == TimeLimit::none;
  if (!in_time) {
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);  // where it had no group of its own yet
  }
  int how = 0;
  while (::waitpid(pid, &how, 0) < 0 && errno == EINTR) {
  }
  ended.seconds = std::chrono::duration<double>(Steady::now() - begin).count();
  if (!in_time) {
    ended.how = EndedProcess::How::out_of_time;
  } else if (WIFSIGNALED(how)) {
    ended.how = EndedProcess::How::killed_by_signal;
    ended.number = WTERMSIG(how);
  } else {
    ended.number = WEXITSTATUS(how);
  }
  return ended;
}

void limit_this_process() {
  const rlimit no_core{0, 0}, memory{kMostMemory, kMostMemory};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (!kWatchedBySanitizer) ::setrlimit(RLIMIT_DATA, &memory);
}

}  // namespace tenon
