// NCCL's double for ranks that are threads of a test, each with a driver and an emulated device of
// its own. A gather happens when the queues of all ranks have come to it, and what the devices have
// then is what they give each other; what nobody wrote there is nothing where it arrives.
//
// It is as strict as NCCL's documentation: all ranks gather the same number of bytes, arrays are
// of one allocation each and do not overlap, calls go to the driver's queue as it is at that
// moment. A rank that does not come for minutes is a failure of the test.
#pragma once

#include <tenon/cuda/emulator.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/exec/cuda/ranks/nccl.h"
#include "tests/cuda/rig/emulated_driver.h"

namespace tenon::cuda::test {

// What the ranks of a test have in common.
class NcclWorld {
 public:
  explicit NcclWorld(uint32_t ranks) : gifts_(ranks) {}

  struct Gift {
    const Emulator* machine = nullptr;
    const void* own = nullptr;
    uint64_t bytes = 0;
  };
  // Returns the gifts of all ranks once all have come; null where one did not, or has left.
  const std::vector<Gift>* meet(uint32_t rank, const Gift& gift);
  // Nobody uses the gifts of the last meeting any more. False as above.
  bool part();
  void leave();
  uint32_t ranks() const { return static_cast<uint32_t>(gifts_.size()); }

 private:
  bool wait_for_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Gift> gifts_;
  uint32_t come_ = 0;
  uint64_t meetings_ = 0;
  bool left_ = false;
};

class NcclDouble final : public NcclLibrary {
 public:
  NcclDouble(std::shared_ptr<NcclWorld> world, EmulatedDriver& driver)
      : world_(std::move(world)), driver_(driver) {}

  std::string version() const override { return "2.27.3"; }
  Result<std::string> new_run() override { return std::string("a run"); }
  Result<std::unique_ptr<NcclRanks>> join(const std::string& run, uint32_t rank,
                                          uint32_t ranks) override;

  // The n-th gather from now on cannot be put on the queue.
  void fail_gather(uint64_t n) { gathers_until_fault_ = n; }
  uint64_t gathers() const { return gathers_; }  // that were put on a queue, captured ones once
  uint64_t gathered_bytes() const { return gathered_bytes_; }

 private:
  class Ranks;
  void gather(uint32_t rank, const void* own, void* all, uint64_t bytes);

  std::shared_ptr<NcclWorld> world_;
  EmulatedDriver& driver_;
  uint64_t gathers_until_fault_ = 0;
  uint64_t gathers_ = 0;
  uint64_t gathered_bytes_ = 0;
};

}  // namespace tenon::cuda::test
