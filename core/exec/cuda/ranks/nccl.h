// NCCL as the executor `cuda` calls it: what several devices, each of another process, give each
// other on their queues. Two bodies: NVIDIA's library, which is loaded when a run has several ranks
// (nccl_library.h), and a double in tests.
//
// Threads: one thread of a rank calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace tenon::cuda {

// The devices of a run, of which this rank's is one.
class NcclRanks {
 public:
  virtual ~NcclRanks() = default;
  // On the queue, at all ranks in the same order: all [ranks, bytes] = what each has in own
  // [bytes]. They do not overlap. May be captured.
  virtual Status all_gather(const void* own, void* all, uint64_t bytes, void* stream) = 0;
  // What is on the queue waits for no rank any more; nothing is gathered from now on.
  virtual void abandon() = 0;
};

class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  virtual std::string version() const = 0;  // "2.27.3"
  // What names a run to its ranks: one of them makes it, and all join with it.
  virtual Result<std::string> new_run() = 0;
  // Returns once all ranks have come. The device that is current is the rank's from now on.
  virtual Result<std::unique_ptr<NcclRanks>> join(const std::string& run, uint32_t rank,
                                                  uint32_t ranks) = 0;
};

// Loads NCCL. Errors: not_found, with the package that brings it; unsupported, with what it lacks.
using NcclLoader = std::function<Result<std::shared_ptr<NcclLibrary>>()>;

}  // namespace tenon::cuda
