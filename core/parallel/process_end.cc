#include "core/parallel/process_end.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "core/base/files/descriptor.h"

namespace tenon {
namespace {

// As <linux/pidfd.h> of Linux 6.15 has it; older headers lack it.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroup = 0;
  uint32_t ids[11] = {};  // of the process, its parent, users and groups
  int32_t exit_code = 0;
};
constexpr uint64_t kHasExitCode = 1 << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);
static_assert(sizeof(PidfdInfo) == 64, "the first version of the kernel's structure");

std::string name_of_signal(int number) {
  constexpr std::pair<int, const char*> kNames[] = {
      {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},  {SIGHUP, "SIGHUP"},
      {SIGQUIT, "SIGQUIT"}, {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},  {SIGILL, "SIGILL"},
      {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"}};
  for (const auto& [known, name] : kNames) {
    if (known == number) return name;
  }
  return "signal " + std::to_string(number);
}

bool is_crash(int number) {
  for (const int crash : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP}) {
    if (crash == number) return true;
  }
  return false;
}

}  // namespace

// Not by std::ifstream, which throws where reading fails (ESRCH).
std::string text_of_process(int64_t process, std::string_view name) {
  const std::string path = "/proc/" + std::to_string(process) + "/" + std::string(name);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  while (file.get() >= 0) {
    const ssize_t got = ::read(file.get(), part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

std::string stat_of_process(int64_t process) {
  const std::string stat = text_of_process(process, "stat");
  // They follow a name in brackets, which may hold anything itself.
  const size_t bracket = stat.rfind(')');
  return bracket == stat.npos || bracket + 2 >= stat.size() ? "" : stat.substr(bracket + 2);
}

int process_descriptor(int64_t process) {
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
}

std::optional<int> wait_status_of(int descriptor, int64_t process) {
  const std::string stat = stat_of_process(process);
  if (stat.starts_with('Z')) return std::atoi(stat.c_str() + stat.rfind(' '));  // the last field
  PidfdInfo info{.mask = kHasExitCode};
  if (descriptor < 0 || ioctl(descriptor, kGetInfo, &info) != 0) return std::nullopt;
  if ((info.mask & kHasExitCode) == 0) return std::nullopt;
  return info.exit_code;
}

ProcessEnds::ProcessEnds() : descriptor_(epoll_create1(EPOLL_CLOEXEC)) {}

ProcessEnds::~ProcessEnds() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ProcessEnds::add(int process, uint64_t key) {
  epoll_event end{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = key}};
  epoll_ctl(descriptor_, EPOLL_CTL_ADD, process, &end);
}

// Linux keeps what is ready in the order in which it became so.
std::optional<uint64_t> ProcessEnds::next() {
  epoll_event end;
  if (epoll_wait(descriptor_, &end, 1, 0) < 1) return std::nullopt;
  const uint64_t key = end.data.u64;  // packed: no reference can be had to it
  return key;
}

bool is_violent(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return false;
  return WTERMSIG(wait_status) == SIGKILL || is_crash(WTERMSIG(wait_status));
}

uint64_t killed_for_memory() {
  std::ifstream counts("/proc/vmstat");
  std::string name;
  for (uint64_t count = 0; counts >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

std::string how_it_ended(std::optional<int> wait_status, uint64_t killed_before) {
  if (!wait_status) return "it was killed, or it crashed";
  const int status = *wait_status;
  if (WIFEXITED(status))
    return "it ended itself, with status " + std::to_string(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  if (number == SIGBUS)
    return "it crashed with SIGBUS, as where a mapped file is cut or its disk fails";
  if (is_crash(number)) return "it crashed with " + name_of_signal(number);
  if (number == SIGKILL && killed_for_memory() > killed_before) {
    return "the system killed it for want of memory";
  }
  return "it was killed by " + name_of_signal(number);
}

}  // namespace tenon
