// Launches of several devices that run at the same time, and what their blocks know of each other:
// a block that acquires a flag knows what the one that released it had done before its last
// __syncthreads, and what that one knew; a device's launch knows all of those before it.
#pragma once

#include <tenon/cuda/emulator.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sdk/cuda_host/src/region.h"

namespace tenon::cuda {

// A vector clock: of each block the epoch before which all that it did is seen.
class SeenBlocks {
 public:
  bool empty() const { return epochs_.empty(); }
  uint32_t of(uint32_t member) const {
    const auto found = epochs_.find(member);
    return found == epochs_.end() ? 0 : found->second;
  }
  void add(uint32_t member, uint32_t epoch) {
    uint32_t& seen = epochs_[member];
    seen = seen < epoch ? epoch : seen;
  }
  void join(const SeenBlocks& other) {
    for (const auto& [member, epoch] : other.epochs_) add(member, epoch);
  }

 private:
  std::map<uint32_t, uint32_t> epochs_;
};

// Flags that were stored by blocks of this thread of the host.
uint64_t& flags_stored();

class Together {
 public:
  Together(const std::vector<std::vector<MeetingLaunch>>& launches, std::atomic<uint32_t>& epoch);
  ~Together();
  bool run();

  // Of blocks, each of which is a member by its number.
  void own(uint32_t epoch, uint32_t member) { owners_[epoch] = member; }
  uint32_t owner(uint32_t epoch) const { return owners_.at(epoch); }
  SeenBlocks seen_before(uint32_t member) const;
  void release(const Region* region, int64_t offset, SeenBlocks shown) {
    flags_[{region, offset}] = std::move(shown);
  }
  // What the host stored shows nothing.
  SeenBlocks released(const Region* region, int64_t offset) const {
    const auto found = flags_.find({region, offset});
    return found == flags_.end() ? SeenBlocks() : found->second;
  }

 private:
  struct Running;  // a block
  struct Device;
  bool run_all();
  bool begin_launch(Device& device);
  bool go_on(Device& device);
  void end_block(Device& device, size_t index);

  std::atomic<uint32_t>& epoch_;
  uint32_t first_epoch_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unordered_map<uint32_t, uint32_t> owners_;  // of epochs
  std::vector<const Device*> device_of_;           // of members
  std::map<std::pair<const Region*, int64_t>, SeenBlocks> flags_;
};

}  // namespace tenon::cuda
