#include "core/parallel/rank_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/parallel/process_end.h"

namespace tenon {
namespace {

constexpr int kBeatMs = 100;
// Who wakes up later than that did not run itself, and knows nothing about the others.
constexpr int64_t kOwnSilenceNs = 1'000'000'000;
// Rank 0 has ended in order: what it sent before arrives within this time.
constexpr int64_t kEndedNs = 1'000'000'000;

bool has_ended(int descriptor, int64_t process) {
  if (descriptor < 0) return kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
  pollfd asked{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&asked, 1, 0) > 0;
}

// A launcher tells its processes to end and waits for them for seconds; one that is stopped hears
// nothing.
void end_silent(int descriptor, int64_t process) {
  if (descriptor < 0 || process == getpid()) return;
  static_cast<void>(syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0));
}

}  // namespace

RankWatch::RankWatch(std::shared_ptr<SharedMemory> memory, uint32_t rank,
                     std::vector<RankPlace> places, OnFault on_fault, std::function<void()> on_beat)
    : memory_(std::move(memory)),
      rank_(rank),
      places_(std::move(places)),
      on_fault_(std::move(on_fault)),
      on_beat_(std::move(on_beat)),
      killed_before_(killed_for_memory()),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

RankWatch::~RankWatch() = default;

std::string RankWatch::fault_of(uint32_t rank, Seen& seen, int64_t now_ns) const {
  const SharedRank& other = memory_->header().ranks[rank];
  const std::string name = name_of_rank(rank, places_[rank]);
  if (has_ended(seen.descriptor, places_[rank].process)) {
    // It may have left since it was looked at.
    const RankState state = other.state.load();
    if (state == RankState::left) return {};
    const std::optional<int> status = wait_status_of(seen.descriptor, places_[rank].process);
    if (state == RankState::leaving && !(status && is_violent(*status))) return {};
    return name + " has ended: " + how_it_ended(status, killed_before_);
  }
  const uint64_t beats = other.beats.load();
  if (beats != seen.beats) {
    seen.beats = beats;
    seen.changed_ns = now_ns;
  }
  if (now_ns - seen.changed_ns < kSilenceNs) return {};
  return name + " has not run for " + std::to_string(kSilenceNs / 1'000'000'000) +
         " s: it is stopped, or its machine gives it no time";
}

// Rank 0 is the program: where it has gone in order, the others go as well, unless they wait for
// it.
bool RankWatch::is_left_behind(const Seen& leader, int64_t now_ns) {
  const SharedRank* ranks = memory_->header().ranks;
  if (rank_ == 0 || ranks[rank_].state.load() == RankState::left) return false;
  const bool ended = has_ended(leader.descriptor, places_[0].process);
  if (!ended && ranks[0].state.load() != RankState::left) return false;
  if (left_since_ns_ == 0) left_since_ns_ = now_ns;
  return now_ns - left_since_ns_ > (ended ? kEndedNs : kLeavingNs);
}

// A launcher ends the other processes as soon as it misses one: whoever tells why must be as quick.
void RankWatch::wait(const std::vector<Seen>& seen) const {
  std::vector<pollfd> asked;
  for (uint32_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank].descriptor < 0) continue;
    // The descriptor of one that has ended in order would end every wait at once.
    if (memory_->header().ranks[rank].state.load() != RankState::here) continue;
    asked.push_back({.fd = seen[rank].descriptor, .events = POLLIN, .revents = 0});
  }
  poll(asked.data(), asked.size(), kBeatMs);
}

// True for the one that reports first, in any process.
bool RankWatch::report(const std::string& fault) const {
  SharedHeader& header = memory_->header();
  uint32_t free = 0;
  if (!header.fault_taken.compare_exchange_strong(free, 1)) return false;
  const size_t bytes = std::min<size_t>(fault.size(), SharedHeader::kMostFaultBytes - 1);
  std::memcpy(header.fault_text, fault.data(), bytes);
  header.fault_text[bytes] = '\0';
  header.fault.store(1, std::memory_order_release);
  return true;
}

void RankWatch::watch(const std::stop_token& stop) {
  SharedHeader& header = memory_->header();
  std::vector<Seen> seen(places_.size());
  std::vector<uint32_t> others;  // those that have ended first, in the order of their ends
  size_t ended = 0;
  ProcessEnds ends;
  int64_t last_ns = WallClock().now_ns();
  for (uint32_t rank = 0; rank < seen.size(); ++rank) {
    seen[rank].changed_ns = last_ns;
    if (rank == rank_) continue;
    others.push_back(rank);
    seen[rank].descriptor = process_descriptor(places_[rank].process);
    if (seen[rank].descriptor >= 0) ends.add(seen[rank].descriptor, rank);
  }
  while (!stop.stop_requested()) {
    header.ranks[rank_].beats.fetch_add(1);
    const int64_t now = WallClock().now_ns();
    if (now - last_ns > kOwnSilenceNs) {
      for (Seen& other : seen) other.changed_ns = now;
    }
    last_ns = now;
    ends.move_to_front(others, ended, [](uint32_t rank) { return uint64_t{rank}; });
    bool speaks = false;
    for (const uint32_t rank : others) {
      if (speaks) break;
      const std::string fault = fault_of(rank, seen[rank], now);
      speaks = !fault.empty() && report(fault);
      if (speaks) end_silent(seen[rank].descriptor, places_[rank].process);
    }
    if (header.fault.load(std::memory_order_acquire) != 0) {
      on_fault_(header.fault_text, speaks);
      break;
    }
    if (is_left_behind(seen[0], now)) {
      on_fault_({}, false);
      break;
    }
    if (on_beat_) on_beat_();
    wait(seen);
  }
  for (const Seen& other : seen) {
    if (other.descriptor >= 0) close(other.descriptor);
  }
}

}  // namespace tenon
