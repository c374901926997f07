#include "core/parallel/mpi/launch_witness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/parallel/mpi/launched_processes.h"
#include "core/parallel/process_end.h"

namespace tenon {
namespace {

constexpr const char* kVariable = "TENON_LAUNCH_WITNESS";
// Looks for ranks so often while they come, and later.
constexpr int kSoonMs = 2, kLaterMs = 50;
constexpr int64_t kComingNs = 5'000'000'000;
// A launcher ends soon after its ranks, and they soon after it.
constexpr int64_t kPatienceNs = 3'000'000'000;
// Those that a launcher ends all at once end within it, and alike.
constexpr int64_t kTogetherNs = 100'000'000;
constexpr int kShellsSignal = 128;  // status of a launcher whose rank was ended by signal 0

enum class Claim : uint32_t { none = 0, end_expected = 1, claimed = 2 };
using Word = std::atomic<Claim>;

Word* mapped(int descriptor) {
  void* data = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return data == MAP_FAILED ? nullptr : static_cast<Word*>(data);
}

bool has_ended(int descriptor) {
  pollfd asked{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&asked, 1, 0) > 0;
}

class Witness {
 public:
  Witness(int64_t launcher, int descriptor, uint32_t ranks, Word& word)
      : launcher_(launcher), descriptor_(descriptor), ranks_(ranks), word_(word) {}

  // Until all of it is over.
  void run() {
    const int64_t began = WallClock().now_ns();
    while (!has_ended(descriptor_)) {
      look_for_ranks();
      const int64_t now = WallClock().now_ns();
      note_ends(now);
      if (all_ended() && now - last_end_ns_ > kPatienceNs) kill_by(descriptor_);
      wait(now - began < kComingNs ? kSoonMs : kLaterMs);
    }
    // Who speaks has claimed so by now: a launcher waits for its ranks.
    note_ends(WallClock().now_ns());
    if (word_.load() == Claim::none) say(fault());
    end_ranks();
  }

 private:
  struct Seen {
    uint32_t rank = 0;
    int64_t process = 0;
    int descriptor = -1;
    int64_t ended_ns = 0;    // 0: it runs
    uint32_t ended_nth = 0;  // 1: it was the first to end
    std::optional<int> status;
  };

  static void kill_by(int descriptor) {
    syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
  }

  void look_for_ranks() {
    if (seen_.size() == ranks_) return;
    for (const int64_t process : children_of_process(launcher_)) {
      if (std::ranges::find(seen_, process, &Seen::process) != seen_.end()) continue;
      const std::optional<uint32_t> rank = rank_of_process(process);
      const int descriptor = rank ? process_descriptor(process) : -1;
      if (descriptor < 0) continue;
      ends_.add(descriptor, seen_.size());
      seen_.push_back({*rank, process, descriptor, 0, 0, {}});
    }
  }

  void note_ends(int64_t now) {
    while (const std::optional<uint64_t> next = ends_.next()) {
      Seen& each = seen_[*next];
      each.ended_ns = last_end_ns_ = now;
      each.ended_nth = ++ended_;
      each.status = wait_status_of(each.descriptor, each.process);
      close(each.descriptor);
    }
  }

  bool all_ended() const { return !seen_.empty() && ended_ == seen_.size(); }

  // Until something ends, or the next look.
  void wait(int look_ms) const {
    pollfd asked[] = {{.fd = descriptor_, .events = POLLIN, .revents = 0},
                      {.fd = ends_.descriptor(), .events = POLLIN, .revents = 0}};
    const bool complete = seen_.size() == ranks_;
    poll(asked, std::size(asked), all_ended() ? kLaterMs : complete ? -1 : look_ms);
  }

  // "rank 0 on alpha (process 4711) has ended …"; empty: nothing that needs to be said.
  std::string fault() const {
    const std::optional<int> launcher = wait_status_of(descriptor_, launcher_);
    if (launcher && WIFSIGNALED(*launcher)) {
      return "Open MPI's launcher (process " + std::to_string(launcher_) +
             ") has ended: " + how_it_ended(launcher, killed_before_);
    }
    if (launcher && !first_signal(launcher)) return {};
    const auto first = std::ranges::find(seen_, 1u, &Seen::ended_nth);
    if (seen_.size() < ranks_ || first == seen_.end()) return missing(launcher);
    const bool together = std::ranges::all_of(seen_, [&](const Seen& each) {
      return each.ended_ns != 0 && each.ended_ns - first->ended_ns < kTogetherNs &&
             each.status == first->status && !(each.status && is_violent(*each.status));
    });
    if (together) return {};  // it was told to end, and ended all of them
    return name_of_local_rank(first->rank, first->process) +
           " has ended before the ranks had met: " +
           how_it_ended(first->status ? first->status : first_signal(launcher), killed_before_);
  }

  // A rank that ended before it was seen.
  std::string missing(std::optional<int> launcher) const {
    if (!launcher) return {};
    std::string names;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (std::ranges::find(seen_, rank, &Seen::rank) != seen_.end()) continue;
      names += (names.empty() ? "rank " : " or rank ") + std::to_string(rank);
    }
    if (names.empty()) return {};
    return names +
           " has ended as it began: " + how_it_ended(first_signal(launcher), killed_before_);
  }

  // A launcher ends with the status of the rank that ended first: of the signal that ended that
  // one, or nothing.
  static std::optional<int> first_signal(std::optional<int> launcher) {
    const int number = launcher ? WEXITSTATUS(*launcher) - kShellsSignal : 0;
    return number > 0 && number <= SIGRTMAX ? std::optional(number) : std::nullopt;
  }

  static void say(const std::string& fault) {
    if (fault.empty()) return;
    const std::string text = "tenon: " + fault + "; the run ends\n";
    static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  }

  // A launcher that was killed leaves them to themselves, and one that is stopped stays so.
  void end_ranks() {
    const int64_t until = WallClock().now_ns() + kPatienceNs;
    while (!all_ended() && !seen_.empty() && WallClock().now_ns() < until) {
      note_ends(WallClock().now_ns());
      pollfd asked{.fd = ends_.descriptor(), .events = POLLIN, .revents = 0};
      if (!all_ended()) poll(&asked, 1, kLaterMs);
    }
    for (const Seen& each : seen_) {
      if (each.ended_ns == 0) kill_by(each.descriptor);
    }
  }

  const int64_t launcher_;
  const int descriptor_;
  const uint32_t ranks_;
  Word& word_;
  const uint64_t killed_before_ = killed_for_memory();
  ProcessEnds ends_;
  std::vector<Seen> seen_;
  uint32_t ended_ = 0;
  int64_t last_end_ns_ = 0;
};

std::string& place_of_word() {
  static std::string place;
  return place;
}

// Null where there is no witness.
Word* word_of_witness() {
  static Word* const kWord = []() -> Word* {
    if (place_of_word().empty()) return nullptr;
    const int descriptor = open(place_of_word().c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return nullptr;
    Word* word = mapped(descriptor);
    close(descriptor);
    return word;
  }();
  return kWord;
}

}  // namespace

void start_launch_witness(uint32_t ranks) {
  const pid_t launcher = getpid();
  const int descriptor = process_descriptor(launcher);
  const int note = memfd_create("tenon-word", MFD_CLOEXEC);
  if (descriptor < 3 || note < 3 || ftruncate(note, sizeof(Word)) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(number, SIG_DFL);
    prctl(PR_SET_NAME, "tenon-witness");
    std::array<int, 3> kept = {STDERR_FILENO, std::min(descriptor, note),
                               std::max(descriptor, note)};
    close_all_but(kept);
    if (Word* word = mapped(note)) Witness(launcher, descriptor, ranks, *word).run();
    _exit(0);
  }
  close(descriptor);
  close(note);
  if (child < 0) return;
  const std::string place = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(note);
  setenv(kVariable, place.c_str(), 1);
}

void remember_witness() {
  if (const char* place = std::getenv(kVariable)) place_of_word() = place;
  unsetenv(kVariable);
}

std::optional<bool> claim_last_word() {
  if (word_of_witness() == nullptr) return std::nullopt;
  return word_of_witness()->exchange(Claim::claimed) != Claim::claimed;
}

bool has_witness() {
  return word_of_witness() != nullptr;
}

void expect_end() {
  Claim none = Claim::none;
  if (Word* word = word_of_witness()) word->compare_exchange_strong(none, Claim::end_expected);
}

}  // namespace tenon
