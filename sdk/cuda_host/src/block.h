// One block of a launch while it runs: its threads as fibers, the places where they meet, and the
// rules by which touching memory is in order or a race.
//
// Order between threads: __syncthreads begins a new epoch, and what was touched in an earlier one
// is in order. Within an epoch each lane knows, of every lane of its warp, up to which of the
// warp's barriers it has seen what that lane did (a vector clock); lanes of a barrier's mask join
// what they know. Blocks of launches that meet know of each other what was released and acquired
// (together.h).
#pragma once

#include <tenon/cuda/emulator.h>

#include <atomic>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cuda_host/src/region.h"
#include "sdk/cuda_host/src/together.h"

namespace tenon::cuda {

// Thrown in a thread that found something, to leave its kernel.
struct Stopped {};

// What launches of one emulator have in common for their blocks.
struct LaunchState {
  const LaunchConfig* config = nullptr;
  const std::function<void()>* thread = nullptr;
  Emulator* emulator = nullptr;
  uint32_t first_epoch = 0;  // of the launch
  std::atomic<uint32_t>* epoch = nullptr;
  std::vector<std::unique_ptr<Region>>* shared = nullptr;  // by their order in the arena
  std::vector<Finding>* findings = nullptr;
  Together* together = nullptr;  // null: no other device's launch runs at the same time
  uint32_t member = 0;           // of `together`
};

class Block {
 public:
  // Called with the lanes' slots once all have come.
  using Complete = std::function<void(void* const* slots)>;

  explicit Block(const LaunchState& launch);
  ~Block();
  // False when something was found.
  bool run();
  // The same step by step: one of its threads goes on, or none can.
  bool advance();
  bool is_done() const { return left_ == 0 || stopped_; }
  bool has_failed() const { return stopped_; }
  void report_stuck();
  // Of all that its threads saw of other blocks.
  const SeenBlocks& seen() const { return seen_; }
  // The one that runs; null outside of kernels.
  static Block* current();

  void read(Region* region, int64_t offset, uint32_t bytes, Line line);
  enum class Write : uint8_t { plain, atomic, landing };
  void write(Region* region, int64_t offset, uint32_t bytes, Line line, Write how);
  void read_allowed(Region* region, int64_t offset, uint32_t bytes, Line line);
  Region* take_shared(uint32_t& used, uint64_t bytes, Line line);

  void copy_async(Region* to, int64_t to_offset, Region* from, int64_t from_offset, uint32_t valid,
                  Line line);
  void commit_async();
  void wait_async(uint32_t groups_left);

  void store_release(Region* region, int64_t offset, uint32_t value, Line line);
  void wait_acquire(Region* region, int64_t offset, uint32_t value, Line line);

  void wait_for_earlier(Line line);
  void barrier(Line line);
  void meet(const char* what, uint32_t mask, void* slot, const Complete& complete, Line line);
  void join_clocks(uint32_t mask);

  uint32_t lane() const { return running_ % kWarp; }
  Counts& counts() { return launch_.emulator->count(); }
  [[noreturn]] void fail(FindingKind kind, Line line, const std::string& text);

 private:
  struct Copy {
    Region* to;
    int64_t to_offset;
    Region* from;
    int64_t from_offset;
    uint32_t valid;
    Line line;
  };
  struct Thread {
    boost::context::fiber fiber;   // where the thread goes on
    boost::context::fiber caller;  // where the block goes on
    Extent index;
    bool done = false;
    bool in_order = false;        // after all earlier kernels
    const char* waits = nullptr;  // for what
    Line waits_at;
    uint32_t stamp = 0;
    uint64_t looked = 0;                    // at flags, when so many had been stored
    SeenBlocks acquired;                    // since the last __syncthreads
    std::vector<Copy> open;                 // cp.async that no group has yet
    std::vector<std::vector<Copy>> groups;  // that were not waited for
  };
  struct Meeting {
    const char* what = nullptr;  // null: free
    Line line;
    uint32_t mask = 0;
    uint32_t arrived = 0;
    void* slots[kWarp] = {};
  };
  struct Warp {
    uint32_t barriers = 0;
    uint32_t away = 0;  // lanes that wait for something, returned, or do not exist
    uint32_t seen[kWarp][kWarp] = {};
    std::vector<Meeting> meetings;
  };

  void start(uint32_t thread);
  void resume(uint32_t thread);
  void finish();
  void suspend(const char* what, Line line);
  void wake(uint32_t thread);
  void report_no_wait();
  void wake_spinning();
  bool knows(uint32_t owner, uint32_t epoch) const;
  void check_lanes(const char* what, uint32_t mask, Line line, const Meeting* joined);
  [[noreturn]] void fail_apart(const char* what, uint32_t mask, uint32_t lane, Line line);
  void add_finding(FindingKind kind, Line line, const std::string& text, uint32_t thread);

  bool in_order(const LastWrite& before) const;
  bool in_order(const LastReads& before) const;
  bool earlier(uint32_t epoch, bool shared, bool& ordered) const;
  void note_read(LastReads& read, Line line) const;
  void check_range(Region* region, int64_t offset, uint32_t bytes, Line line, const char* verb);
  void check_landed(const Region& region, uint64_t byte, Line line);
  void check_early_read(Region* region, int64_t offset, uint32_t bytes, Line line);
  void land(const Copy& copy);
  [[noreturn]] void fail_race(const Region& region, uint64_t byte, Line line, const char* verb,
                              const Cell& cell, bool with_write);

  LaunchState launch_;
  uint32_t first_epoch_;
  uint32_t epoch_;
  uint32_t count_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<uint32_t> ready_;
  std::vector<uint32_t> spinning_;  // look at a flag that was not as they want it
  SeenBlocks seen_;
  uint32_t running_ = 0;
  uint32_t left_;
  uint32_t at_barrier_ = 0;
  Line barrier_line_;
  Line earlier_line_;  // of a wait_for_earlier
  bool stopped_ = false;
};

}  // namespace tenon::cuda
