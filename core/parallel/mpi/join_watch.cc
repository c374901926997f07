#include "core/parallel/mpi/join_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/clock.h"
#include "core/parallel/mpi/launch_witness.h"
#include "core/parallel/mpi/launched_processes.h"
#include "core/parallel/process_end.h"

namespace tenon {
namespace {

constexpr int kBeatMs = 100;
constexpr auto kHeadStart = std::chrono::milliseconds(300);  // of the one who speaks

}  // namespace

JoinWatch::JoinWatch(uint32_t own_rank, uint32_t ranks, RankWatch::OnFault on_fault)
    : own_rank_(own_rank),
      ranks_(ranks),
      killed_before_(killed_for_memory()),
      on_fault_(std::move(on_fault)),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

JoinWatch::~JoinWatch() {
  thread_.request_stop();
  thread_.join();
  for (const Sibling& sibling : siblings_) close(sibling.descriptor);
}

void JoinWatch::look_around() {
  for (const int64_t process : children_of_process(getppid())) {
    if (process == getpid()) continue;
    if (std::ranges::find(siblings_, process, &Sibling::process) != siblings_.end()) continue;
    const std::optional<uint32_t> rank = rank_of_process(process);
    if (!rank || *rank == own_rank_) continue;
    const int descriptor = process_descriptor(process);
    if (descriptor < 0) continue;
    siblings_.push_back({*rank, process, descriptor, 0});
    ends_.add(descriptor, static_cast<uint64_t>(process));
  }
  ends_.move_to_front(siblings_, ended_, [](const Sibling& sibling) {
    return static_cast<uint64_t>(sibling.process);
  });
  found_ = static_cast<uint32_t>(siblings_.size());
}

std::string JoinWatch::fault_of(Sibling& sibling, int64_t now_ns) const {
  pollfd asked{.fd = sibling.descriptor, .events = POLLIN, .revents = 0};
  if (poll(&asked, 1, 0) > 0) {
    return name_of_local_rank(sibling.rank, sibling.process) + " has ended" +
           (met_ ? ": " : " before the ranks had met: ") +
           how_it_ended(wait_status_of(sibling.descriptor, sibling.process), killed_before_);
  }
  if (state_of_process(sibling.process) != 'T') {
    sibling.stopped_since_ns = 0;
    return {};
  }
  if (sibling.stopped_since_ns == 0) sibling.stopped_since_ns = now_ns;
  if (now_ns - sibling.stopped_since_ns < RankWatch::kSilenceNs) return {};
  return name_of_local_rank(sibling.rank, sibling.process) + " has not run for " +
         std::to_string(RankWatch::kSilenceNs / 1'000'000'000) +
         (met_ ? " s" : " s, before the ranks had met") + ": it is stopped";
}

bool JoinWatch::is_left_to_witness() const {
  return !met_ && siblings_.size() + 1 < ranks_ && has_witness();
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
    const int64_t now_ns = WallClock().now_ns();
    for (Sibling& sibling : siblings_) {
      const std::string fault = fault_of(sibling, now_ns);
      if (fault.empty()) continue;
      if (is_left_to_witness()) return on_fault_({}, false);
      const bool speaks = std::ranges::none_of(siblings_, [&](const Sibling& other) {
        return other.rank < own_rank_ && other.rank != sibling.rank &&
               state_of_process(other.process) != 'T';
      });
      if (!speaks) std::this_thread::sleep_for(kHeadStart);
      if (stop.stop_requested()) return;
      syscall(SYS_pidfd_send_signal, sibling.descriptor, SIGKILL, nullptr, 0);
      on_fault_(fault, speaks);
      return;
    }
    wait();
  }
}

}  // namespace tenon
