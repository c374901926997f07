#include "core/isolation/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <new>

#include "core/base/files/own_place.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/isolation/guest/sandbox.h"

extern char** environ;

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGuestProgram = "tenon-guest";

Status system_said(const std::string& what) {
  return failed(what + ": " + std::strerror(errno));
}

int64_t now_of_system_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// What the loader and sanitizers read; nothing else of this program's surroundings.
std::vector<char*> environment_of_guest() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    for (const std::string_view name : {"LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",
                                        "TSAN_OPTIONS=", "LSAN_OPTIONS="}) {
      if (text.starts_with(name)) kept.push_back(*entry);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

class SpawnActions {
 public:
  SpawnActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  void put(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// A group of its own, so that an interrupt reaches this program alone; signals as they usually are.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// Above the numbers that the process is given its files as, so that none covers another.
int out_of_the_way(int fd) {
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 16);
  ::close(fd);
  return moved;
}

Result<pid_t> spawn(const std::string& program, int memory, int life) {
  SpawnActions actions;
  actions.put(memory, kGuestMemoryFd);
  actions.put(life, kGuestLifeFd);
  const SpawnAttributes attributes;
  std::string name = kGuestProgram;
  char* const arguments[] = {name.data(), nullptr};
  const std::vector<char*> environment = environment_of_guest();
  pid_t pid = -1;
  errno = ::posix_spawn(&pid, program.c_str(), actions.get(), attributes.get(), arguments,
                        environment.data());
  if (errno != 0) return system_said("the process of a plugin cannot be started as " + program);
  return pid;
}

}  // namespace

Result<std::string> find_guest_program() {
  const std::string own = own_file();
  const fs::path places[] = {
      fs::path(own).parent_path() / kGuestProgram,
      (fs::path(install_prefix(own)) / TENON_INSTALL_LIBEXECDIR / "tenon" / kGuestProgram)
          .lexically_normal(),
      fs::path(TENON_BUILD_FOLDER) / "bin" / kGuestProgram};
  const std::string build = TENON_BUILD_FOLDER "/";
  const bool in_build = own.starts_with(build);
  std::vector<std::string> looked;
  for (const fs::path& place : places) {
    if (!in_build && place.string().starts_with(build)) continue;
    if (::access(place.c_str(), X_OK) == 0) return place.string();
    looked.push_back(place.string());
  }
  return not_found("there is no program '" + std::string(kGuestProgram) +
                   "', in which isolated plugins run (searched: " + join(looked) +
                   "); install it, or set engine.guard = \"checks\"");
}

Status GuestProcess::start(const LaneSizes& sizes, const Limits& limits) {
  end();
  TENON_ASSIGN_OR_RETURN(const std::string program, find_guest_program());
  sizes_ = sizes;
  limits_ = limits;
  memory_bytes_ = kGuestPageBytes + sizes.bytes();
  const int memory = out_of_the_way(::memfd_create("tenon-guest", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory < 0) return system_said("memory to share with a plugin's process");
  void* mapped = MAP_FAILED;
  // Sealed: a process that made it smaller would take the memory from under this program.
  if (::ftruncate(memory, static_cast<off_t>(memory_bytes_)) == 0 &&
      ::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    mapped = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    memory, 0);
  }
  int life[2] = {-1, -1};
  if (mapped == MAP_FAILED || ::pipe2(life, O_CLOEXEC) != 0) {
    const Status status = system_said("memory to share with a plugin's process");
    if (mapped != MAP_FAILED) ::munmap(mapped, memory_bytes_);
    ::close(memory);
    return copy(status);
  }
  memory_ = static_cast<std::byte*>(mapped);
  auto* page = new (memory_) GuestPage;
  page->sizes = sizes;
  page->memory_bytes = limits.memory_bytes;
  for (uint32_t i = 0; i < sizes.lanes; ++i) {
    new (memory_ + kGuestPageBytes + i * sizes.lane_bytes()) LaneHeader;
  }
  const int read_end = out_of_the_way(life[0]);
  life_ = life[1];
  auto pid = spawn(program, memory, read_end);
  ::close(memory);
  ::close(read_end);
  if (pid.ok()) {
    pid_ = *pid;
    return {};
  }
  end();
  return pid.take_status();
}

void GuestProcess::end() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  if (life_ >= 0) ::close(life_);
  life_ = -1;
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
  memory_ = nullptr;
}

Lane GuestProcess::lane(uint32_t index) const {
  return {memory_ + kGuestPageBytes, sizes_, index};
}

GuestProcess::Heard GuestProcess::call(const Lane& lane, uint32_t method, size_t bytes,
                                       const std::function<void()>& on_question) const {
  const int64_t until_ns = now_of_system_ns() + limits_.call_ns;
  bool late = false, ended = false;
  const auto go_on = [&] {
    // It stays to be cleared away: `end` does.
    siginfo_t info{};
    ended = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0;
    late = now_of_system_ns() >= until_ns;
    return !ended && !late;
  };
  lane.call(method, bytes);
  for (;;) {
    if (!lane.wait_for_reply(go_on)) {
      if (ended) return {false, how_it_ended()};
      return {false, "did not return within " + call_limit()};
    }
    if (!lane.is_question()) return {true, {}};
    on_question();
    // One that asks forever is late as well.
    if (now_of_system_ns() >= until_ns) {
      return {false, "asked on and on for " + call_limit()};
    }
    lane.answer();
  }
}

Sandbox GuestProcess::sandbox() const {
  if (memory_ == nullptr) return Sandbox::none;
  return std::launder(reinterpret_cast<const GuestPage*>(memory_))->sandbox.load();
}

std::string_view GuestProcess::refused() const {
  if (memory_ == nullptr) return {};
  const uint32_t call = std::launder(reinterpret_cast<const GuestPage*>(memory_))->refused.load();
  return call == 0 ? std::string_view() : name_of_refused(call);
}

std::string GuestProcess::call_limit() const {
  const std::string named(limits_.call_named);
  return format_duration(limits_.call_ns) + (named.empty() ? "" : " (" + named + ")");
}

std::string GuestProcess::last_words() const {
  const auto* page = std::launder(reinterpret_cast<const GuestPage*>(memory_));
  const uint32_t bytes = page->last_words_bytes.load(std::memory_order_acquire);
  const std::string words(page->last_words, std::min<size_t>(bytes, sizeof(page->last_words)));
  return words.empty() ? "" : ": " + one_line(words);
}

std::string GuestProcess::how_it_ended() const {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return "ended";
  }
  if (info.si_code == CLD_EXITED) {
    return "ended with status " + std::to_string(info.si_status) + last_words();
  }
  return "was ended by signal " + std::to_string(info.si_status) + " (" +
         ::strsignal(info.si_status) + ")" + last_words();
}

}  // namespace tenon
