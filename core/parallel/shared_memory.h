// The memory that the ranks of one machine share (docs/parallel.md shows it).
//
// Every rank has a line of counters and two slots, which it fills in turn: a slot is written again
// only after all ranks came to the exchange after the one that read it. Two more slots carry what
// it gives to one other rank. Messages of rank 0 go through two buffers in the same way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/result.h"

namespace tenon {

// A number that others wait for.
struct alignas(64) SharedCount {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};  // who sleeps until it changes
};

// leaving: it was told to end, so its end surprises nobody, but takes part until then.
enum class RankState : uint32_t { absent = 0, here = 1, left = 2, leaving = 3 };

struct alignas(64) SharedRank {
  SharedCount exchanges;  // that it came to
  SharedCount messages;   // parts of messages: that rank 0 wrote, or that another rank read
  SharedCount given;      // pieces that it gave
  SharedCount taken;      // of them, those that were taken; the other rank writes it
  alignas(64) std::atomic<uint64_t> beats{0};  // rises while the process runs (rank_watch.h)
  std::atomic<RankState> state{RankState::absent};
};

struct SharedHeader {
  static constexpr uint32_t kMostRanks = 64;
  static constexpr uint32_t kMostFaultBytes = 1000;
  static constexpr uint32_t kPartBytes = 256 << 10;  // of a message

  std::atomic<uint32_t> fault_taken{0};  // somebody writes the fault
  std::atomic<uint32_t> fault{0};        // 1: it is there to be read
  char fault_text[kMostFaultBytes] = {};
  SharedRank ranks[kMostRanks];
  struct Part {
    uint32_t bytes = 0;
    uint32_t last = 0;  // of its message
    alignas(64) std::byte data[kPartBytes];
  };
  Part parts[2];
};

// Memory at which all ranks look: what one writes before an exchange, the others see after it. Its
// first page counts the ranks that are in it; the last one to leave gives its pages back.
class SharedRoom {
 public:
  // A mapping of `descriptor`, both of which it takes over.
  SharedRoom(void* mapping, uint64_t bytes, int descriptor, uint64_t offset);
  ~SharedRoom();
  SharedRoom(const SharedRoom&) = delete;
  SharedRoom& operator=(const SharedRoom&) = delete;
  std::byte* data() const;  // page-aligned; what stands there at first is not known
  uint64_t bytes() const;

 private:
  std::atomic<uint32_t>& users() const { return *reinterpret_cast<std::atomic<uint32_t>*>(data_); }

  std::byte* data_;
  uint64_t bytes_;  // with the first page
  int descriptor_;
  uint64_t offset_;  // in the file
};

// Mapped shared memory; whoever maps it last takes it away.
class SharedMemory {
 public:
  // Zeroed memory for so many ranks, without a name in any folder. Errors: out_of_memory, failed.
  static Result<std::unique_ptr<SharedMemory>> create(uint32_t ranks, uint64_t slot_bytes);
  // That of another process of this user and machine. Error: failed.
  static Result<std::unique_ptr<SharedMemory>> open(int64_t process, int descriptor, uint32_t ranks,
                                                    uint64_t slot_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return descriptor_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  SharedHeader& header() const { return *static_cast<SharedHeader*>(data_); }
  std::byte* slot(uint32_t rank, uint32_t turn) const {
    return static_cast<std::byte*>(data_) + first_slot_ +
           (uint64_t{rank} * kSlots + turn) * slot_bytes_;
  }
  // Memory behind the slots, the same for all that ask for one number. Errors: out_of_memory.
  Result<std::unique_ptr<SharedRoom>> room(uint64_t number, uint64_t bytes) const;
  // What a rank gives to one other.
  std::byte* given_slot(uint32_t rank, uint32_t turn) const { return slot(rank, 2 + turn); }

 private:
  static constexpr uint32_t kSlots = 4;  // of a rank
  SharedMemory() = default;
  static Result<std::unique_ptr<SharedMemory>> map(int descriptor, uint32_t ranks,
                                                   uint64_t slot_bytes);

  int descriptor_ = -1;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t first_slot_ = 0;
  uint64_t slot_bytes_ = 0;
};

}  // namespace tenon
