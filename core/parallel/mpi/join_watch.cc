#include "core/parallel/mpi/join_watch.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

namespace tenon {
namespace {

constexpr int kBeatMs = 100;
constexpr auto kHeadStart = std::chrono::milliseconds(300);  // of the one who speaks
constexpr int kLauncherPatienceMs = 5000;
constexpr std::string_view kLauncherNames[] = {"mpirun", "mpiexec", "orterun",
                                               "orted",  "prterun", "prted"};
constexpr std::string_view kRankNames[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"};

int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string place_of(int64_t process) {
  return "/proc/" + std::to_string(process);
}

// Of a process that has become a program: until then it has its launcher's environment.
std::optional<uint32_t> rank_of(int64_t process) {
  std::istringstream environment(text_of(place_of(process) + "/environ"));
  for (std::string entry; std::getline(environment, entry, '\0');) {
    for (const std::string_view name : kRankNames) {
      if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
        return static_cast<uint32_t>(std::strtoul(entry.c_str() + name.size() + 1, nullptr, 10));
      }
    }
  }
  return std::nullopt;
}

// The letter after the name in brackets, which may hold anything itself.
char state_of(int64_t process) {
  const std::string stat = text_of(place_of(process) + "/stat");
  const size_t bracket = stat.rfind(')');
  return bracket == stat.npos || bracket + 2 >= stat.size() ? '?' : stat[bracket + 2];
}

// Each thread of a process lists those that it started.
std::vector<int64_t> children_of(int64_t process) {
  std::vector<int64_t> children;
  const std::string threads = place_of(process) + "/task";
  DIR* folder = opendir(threads.c_str());
  if (folder == nullptr) return children;
  while (const dirent* thread = readdir(folder)) {
    std::istringstream list(text_of(threads + "/" + thread->d_name + "/children"));
    for (int64_t child = 0; list >> child;) children.push_back(child);
  }
  closedir(folder);
  return children;
}

// Of Open MPI: another one's processes have work of their own.
bool is_mpirun(int64_t process) {
  const std::string name = text_of(place_of(process) + "/comm");
  return std::ranges::any_of(kLauncherNames,
                             [&](std::string_view known) { return name.starts_with(known); });
}

void close_all_but(int descriptor) {
  const auto first = static_cast<unsigned>(descriptor);
  if (syscall(SYS_close_range, 0u, first - 1, 0u) == 0 &&
      syscall(SYS_close_range, first + 1, ~0u, 0u) == 0) {
    return;
  }
  constexpr int kUsual = 1024;
  for (int other = 0; other < kUsual; ++other) {
    if (other != descriptor) close(other);
  }
}

// Open MPI's mpirun 4.1 can wait for itself without end where a rank dies while it connects to it
// ("PMIX ERROR: UNREACHABLE"), and then outlives all ranks. A process of ours that outlives this
// one ends it.
void end_launcher_if_it_stays() {
  const pid_t launcher = getppid();
  if (!is_mpirun(launcher)) return;
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, launcher, 0));
  if (descriptor < 1) return;
  if (fork() != 0) {
    close(descriptor);
    return;
  }
  // From here on nothing but system calls: other threads may have held any lock.
  setsid();
  close_all_but(descriptor);  // what a launcher reads of ranks ends with them
  pollfd asked{.fd = descriptor, .events = POLLIN, .revents = 0};
  int ended = 0;
  while ((ended = poll(&asked, 1, kLauncherPatienceMs)) < 0 && errno == EINTR) {
  }
  if (ended == 0) syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
  _exit(0);
}

std::string name_of(uint32_t rank, int64_t process) {
  char host[128] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '?';
  RankPlace place;
  place.host = host;
  place.process = process;
  return name_of_rank(rank, place);
}

}  // namespace

int64_t own_launched_rank() {
  for (const std::string_view name : kRankNames) {
    if (const char* value = std::getenv(std::string(name).c_str())) return std::atoll(value);
  }
  return -1;
}

JoinWatch::JoinWatch(uint32_t own_rank, RankWatch::OnFault on_fault)
    : own_rank_(own_rank),
      on_fault_(std::move(on_fault)),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

JoinWatch::~JoinWatch() {
  thread_.request_stop();
  thread_.join();
  for (const Sibling& sibling : siblings_) close(sibling.descriptor);
}

void JoinWatch::look_around() {
  for (const int64_t process : children_of(getppid())) {
    if (process == getpid()) continue;
    if (std::ranges::find(siblings_, process, &Sibling::process) != siblings_.end()) continue;
    const std::optional<uint32_t> rank = rank_of(process);
    if (!rank || *rank == own_rank_) continue;
    const auto descriptor =
        static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
    if (descriptor >= 0) siblings_.push_back({*rank, process, descriptor, 0});
  }
  found_ = static_cast<uint32_t>(siblings_.size());
}

std::string JoinWatch::fault_of(Sibling& sibling, int64_t now_ns) const {
  pollfd asked{.fd = sibling.descriptor, .events = POLLIN, .revents = 0};
  if (poll(&asked, 1, 0) > 0) {
    return name_of(sibling.rank, sibling.process) +
           " has ended before the ranks had met: it was killed, or it crashed";
  }
  if (state_of(sibling.process) != 'T') {
    sibling.stopped_since_ns = 0;
    return {};
  }
  if (sibling.stopped_since_ns == 0) sibling.stopped_since_ns = now_ns;
  if (now_ns - sibling.stopped_since_ns < RankWatch::kSilenceNs) return {};
  return name_of(sibling.rank, sibling.process) + " has not run for " +
         std::to_string(RankWatch::kSilenceNs / 1'000'000'000) +
         " s, before the ranks had met: it is stopped";
}

// Until the next look, or until one of the processes ends.
void JoinWatch::wait() const {
  std::vector<pollfd> asked;
  for (const Sibling& sibling : siblings_) {
    asked.push_back({.fd = sibling.descriptor, .events = POLLIN, .revents = 0});
  }
  poll(asked.data(), asked.size(), siblings_.empty() ? kBeatMs / 10 : kBeatMs);
}

void JoinWatch::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    look_around();
    const int64_t now_ns = monotonic_ns();
    for (Sibling& sibling : siblings_) {
      const std::string fault = fault_of(sibling, now_ns);
      if (fault.empty()) continue;
      const bool speaks = std::ranges::none_of(siblings_, [&](const Sibling& other) {
        return other.rank < own_rank_ && other.rank != sibling.rank &&
               state_of(other.process) != 'T';
      });
      if (!speaks) std::this_thread::sleep_for(kHeadStart);
      if (stop.stop_requested()) return;
      syscall(SYS_pidfd_send_signal, sibling.descriptor, SIGKILL, nullptr, 0);
      if (speaks) end_launcher_if_it_stays();
      on_fault_(fault, speaks);
      return;
    }
    wait();
  }
}

}  // namespace tenon
