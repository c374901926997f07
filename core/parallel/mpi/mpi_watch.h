// Watches the ranks of several machines: each tells all others twice a second that it runs. One
// that is not heard of for kSilenceNs is stopped, or its machine or link is gone.
//
// Threads: MPI is called by one thread at a time, under a lock that others share.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "core/parallel/collective.h"
#include "core/parallel/mpi/mpi_library.h"
#include "core/parallel/rank_watch.h"

namespace tenon {

class MpiWatch {
 public:
  // Of MPI_COMM_WORLD. `mpi` and `calls`, which is held during every call of MPI, outlive it.
  // `on_fault` as RankWatch's: the lowest rank that is not missed speaks.
  MpiWatch(const MpiLibrary& mpi, std::mutex& calls, uint32_t rank, std::vector<RankPlace> places,
           RankWatch::OnFault on_fault);
  // Tells the others that nobody need miss this rank.
  ~MpiWatch();
  MpiWatch(const MpiWatch&) = delete;
  MpiWatch& operator=(const MpiWatch&) = delete;

 private:
  enum class Beat : uint8_t { here = 1, leaves = 2 };
  struct Peer {
    MpiLibrary::Handle sent = nullptr, heard = nullptr;  // requests; null: none is under way
    Beat to_say = Beat::here, said = Beat::here;
    int64_t heard_ns = 0;
    bool left = false;
  };
  void watch(const std::stop_token& stop);
  void hear(Peer& peer, uint32_t rank, int64_t now_ns);
  void say(Peer& peer, uint32_t rank, Beat beat);
  bool is_under_way(MpiLibrary::Handle& request);
  void take_leave();

  const MpiLibrary& mpi_;
  std::mutex& calls_;
  const uint32_t rank_;
  const std::vector<RankPlace> places_;
  const RankWatch::OnFault on_fault_;
  std::vector<Peer> peers_;  // [ranks]; this one's is not used
  std::jthread thread_;
};

}  // namespace tenon
