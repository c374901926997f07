// A process as one of several that MPI's launcher started.
//
// MPI launches and introduces: who the ranks are, and on which hosts. Where all are on one host,
// they share memory from then on; else MPI carries what they exchange.
//
// Threads: [one thread] makes and ends it; the collective is used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/parallel/collective.h"
#include "core/parallel/mpi/join_watch.h"
#include "core/parallel/mpi/mpi_library.h"
#include "core/parallel/mpi/mpi_watch.h"
#include "core/parallel/rank_watch.h"

namespace tenon {

// Whether the environment says that a launcher of MPI started this process as one of several.
bool is_started_as_rank();
// Where it is MPICH's launcher, or another one with its protocol alone, why that does not do; ok
// else. Each of its processes would be a run of its own.
Status check_launcher();

class RankSession {
 public:
  struct Options {
    // Called once at most, by a thread of the session, when a rank of this host is gone: tells
    // people if `speaks`, and ends the process.
    RankWatch::OnFault on_fault;
    // As RankWatch's; may be empty.
    std::function<void()> on_beat;
  };
  // Blocks until all ranks have come. Errors: those of load_mpi; failed, where MPI does not start.
  static Result<std::unique_ptr<RankSession>> join(Options options);
  // Leaves in order: waits until all ranks do.
  ~RankSession();
  RankSession(const RankSession&) = delete;
  RankSession& operator=(const RankSession&) = delete;

  Collective& ranks() { return *collective_; }
  const std::string& library() const { return library_version_; }

 private:
  RankSession() = default;
  Status introduce(std::vector<RankPlace>& places, bool& one_host);
  Status share_memory(const std::vector<RankPlace>& places, const Options& options);

  std::unique_ptr<MpiLibrary> mpi_;
  std::string library_version_;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;
  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<Collective> collective_;
  // Of ranks that share memory, or of those of this host and those of all.
  std::unique_ptr<RankWatch> watch_;
  std::unique_ptr<JoinWatch> siblings_;
  std::unique_ptr<MpiWatch> far_watch_;
};

}  // namespace tenon
