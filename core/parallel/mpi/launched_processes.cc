#include "core/parallel/mpi/launched_processes.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "core/parallel/collective.h"
#include "core/parallel/process_end.h"

namespace tenon {
namespace {

constexpr std::string_view kLauncherNames[] = {"mpirun", "mpiexec", "orterun",
                                               "orted",  "prterun", "prted"};
constexpr int kLauncherPatienceMs = 3000;
constexpr std::string_view kRankNames[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"};

void close_range_of(unsigned first, unsigned last) {
  if (first > last || syscall(SYS_close_range, first, last, 0u) == 0) return;
  constexpr unsigned kUsual = 1024;
  for (unsigned one = first; one <= std::min(last, kUsual); ++one) close(static_cast<int>(one));
}

// What follows the state; 0 where the process is not seen.
int64_t parent_of_process(int64_t process) {
  const std::string stat = stat_of_process(process);
  return stat.size() > 2 ? std::atoll(&stat[2]) : 0;
}

}  // namespace

std::optional<uint32_t> rank_of_process(int64_t process) {
  std::istringstream environment(text_of_process(process, "environ"));
  for (std::string entry; std::getline(environment, entry, '\0');) {
    for (const std::string_view name : kRankNames) {
      if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
        return static_cast<uint32_t>(std::strtoul(entry.c_str() + name.size() + 1, nullptr, 10));
      }
    }
  }
  return std::nullopt;
}

int64_t own_launched_rank() {
  for (const std::string_view name : kRankNames) {
    if (const char* value = std::getenv(std::string(name).c_str())) return std::atoll(value);
  }
  return -1;
}

uint32_t own_launched_ranks() {
  const char* value = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return value == nullptr ? 0 : static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
}

char state_of_process(int64_t process) {
  const std::string stat = stat_of_process(process);
  return stat.empty() ? '?' : stat.front();
}

bool sees_its_launcher() {
  constexpr int kMostAncestors = 64;
  // The server's number stands at the end, Open MPI's as well as Slurm's.
  const char* place = std::getenv("PMIX_DSTORE_21_BASE_PATH");
  const std::string_view path = place != nullptr ? place : "";
  const size_t before = path.rfind('_');
  const int64_t server = before == path.npos ? 0 : std::atoll(path.data() + before + 1);
  if (server <= 0) return true;
  int64_t ancestor = getppid();
  for (int i = 0; i < kMostAncestors && ancestor > 0 && ancestor != server; ++i) {
    ancestor = parent_of_process(ancestor);
  }
  return ancestor == server;
}

// Each thread of a process lists those that it started.
std::vector<int64_t> children_of_process(int64_t process) {
  std::vector<int64_t> children;
  const std::string threads = "/proc/" + std::to_string(process) + "/task";
  DIR* folder = opendir(threads.c_str());
  if (folder == nullptr) return children;
  while (const dirent* thread = readdir(folder)) {
    std::istringstream list(
        text_of_process(process, "task/" + std::string(thread->d_name) + "/children"));
    for (int64_t child = 0; list >> child;) children.push_back(child);
  }
  closedir(folder);
  return children;
}

bool is_open_mpi_launcher(int64_t process) {
  const std::string name = text_of_process(process, "comm");
  return std::ranges::any_of(kLauncherNames,
                             [&](std::string_view known) { return name.starts_with(known); });
}

std::string name_of_local_rank(uint32_t rank, int64_t process) {
  char host[128] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '?';
  RankPlace place;
  place.host = host;
  place.process = process;
  return name_of_rank(rank, place);
}

void close_all_but(std::span<const int> kept) {
  unsigned next = 0;
  for (const int one : kept) {
    close_range_of(next, static_cast<unsigned>(one) - 1);
    next = static_cast<unsigned>(one) + 1;
  }
  close_range_of(next, ~0u);
}

// Open MPI's mpirun 4.1 can wait for itself without end where a rank dies while it connects to it
// ("PMIX ERROR: UNREACHABLE"), and then outlives all ranks. A process of ours that outlives this
// one ends it.
void end_launcher_if_it_stays() {
  const pid_t launcher = getppid();
  if (!is_open_mpi_launcher(launcher)) return;
  const int descriptor = process_descriptor(launcher);
  if (descriptor < 1) return;
  if (fork() != 0) {
    close(descriptor);
    return;
  }
  // From here on nothing but system calls: other threads may have held any lock.
  setsid();
  close_all_but({&descriptor, 1});  // what a launcher reads of ranks ends with them
  pollfd asked{.fd = descriptor, .events = POLLIN, .revents = 0};
  int ended = 0;
  while ((ended = poll(&asked, 1, kLauncherPatienceMs)) < 0 && errno == EINTR) {
  }
  if (ended == 0) syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
  _exit(0);
}

}  // namespace tenon
