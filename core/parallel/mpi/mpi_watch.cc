#include "core/parallel/mpi/mpi_watch.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "core/base/clock.h"

namespace tenon {
namespace {

constexpr int kBeatTag = 5;
constexpr std::chrono::milliseconds kLook{50};
constexpr int64_t kBeatNs = 500'000'000;
// Who looks later than that did not run itself, and knows nothing about the others.
constexpr int64_t kOwnSilenceNs = 1'000'000'000;
constexpr auto kHeadStart = std::chrono::milliseconds(300);  // of the one who speaks
constexpr int64_t kFarewellNs = 500'000'000;

}  // namespace

MpiWatch::MpiWatch(const MpiLibrary& mpi, std::mutex& calls, uint32_t rank,
                   std::vector<RankPlace> places, RankWatch::OnFault on_fault)
    : mpi_(mpi),
      calls_(calls),
      rank_(rank),
      places_(std::move(places)),
      on_fault_(std::move(on_fault)),
      peers_(places_.size()),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

MpiWatch::~MpiWatch() {
  thread_.request_stop();
  thread_.join();
  take_leave();
}

bool MpiWatch::is_under_way(MpiLibrary::Handle& request) {
  if (request == nullptr) return false;
  int done = 0;
  if (mpi_.test(&request, &done, nullptr) != 0 || done != 0) request = nullptr;
  return request != nullptr;
}

void MpiWatch::hear(Peer& peer, uint32_t rank, int64_t now_ns) {
  const bool asked = peer.heard != nullptr;
  if (is_under_way(peer.heard)) return;
  if (asked) {
    peer.heard_ns = now_ns;
    peer.left = peer.said == Beat::leaves;
  }
  if (peer.left) return;
  mpi_.irecv(&peer.said, 1, mpi_.byte, static_cast<int>(rank), kBeatTag, mpi_.world, &peer.heard);
}

// One that does not get through is not followed by another.
void MpiWatch::say(Peer& peer, uint32_t rank, Beat beat) {
  if (is_under_way(peer.sent)) return;
  peer.to_say = beat;
  mpi_.isend(&peer.to_say, 1, mpi_.byte, static_cast<int>(rank), kBeatTag, mpi_.world, &peer.sent);
}

void MpiWatch::watch(const std::stop_token& stop) {
  int64_t last_ns = WallClock().now_ns(), told_ns = 0;
  for (Peer& peer : peers_) peer.heard_ns = last_ns;
  for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook)) {
    const int64_t now = WallClock().now_ns();
    const bool slept = now - last_ns > kOwnSilenceNs;
    last_ns = now;
    const bool tells = now - told_ns >= kBeatNs;
    if (tells) told_ns = now;
    uint32_t missing = static_cast<uint32_t>(peers_.size());
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      if (rank == rank_) continue;
      const std::lock_guard lock(calls_);
      Peer& peer = peers_[rank];
      hear(peer, rank, now);
      if (tells) say(peer, rank, Beat::here);
      if (slept) peer.heard_ns = now;
      if (!peer.left && now - peer.heard_ns > RankWatch::kSilenceNs)
        missing = std::min(missing, rank);
    }
    if (missing == peers_.size()) continue;
    const bool speaks = rank_ == (missing == 0 ? 1u : 0u);
    if (!speaks) std::this_thread::sleep_for(kHeadStart);
    on_fault_(name_of_rank(missing, places_[missing]) + " has not answered for " +
                  std::to_string(RankWatch::kSilenceNs / 1'000'000'000) +
                  " s: it is stopped, or its machine or link is gone",
              speaks);
    return;
  }
}

void MpiWatch::take_leave() {
  const int64_t until = WallClock().now_ns() + kFarewellNs;
  for (bool open = true; open && WallClock().now_ns() < until; std::this_thread::yield()) {
    open = false;
    const std::lock_guard lock(calls_);
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      Peer& peer = peers_[rank];
      if (rank == rank_ || peer.left) continue;
      if (is_under_way(peer.sent)) {
        open = true;
      } else if (peer.to_say == Beat::here) {
        say(peer, rank, Beat::leaves);
        open = true;
      }
    }
  }
  const std::lock_guard lock(calls_);
  for (Peer& peer : peers_) {
    if (peer.heard == nullptr) continue;
    mpi_.cancel(&peer.heard);
    static_cast<void>(is_under_way(peer.heard));
  }
}

}  // namespace tenon
