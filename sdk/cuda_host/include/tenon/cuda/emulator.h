// A CUDA machine for kernels that were compiled against the host body of machine.h. It runs them to
// find mistakes, not to be quick, and it is an adversary:
//
//   - lanes, warps and blocks run in an order that follows from the seed and changes whenever
//     threads wait for each other
//   - cp.async lands when it is waited for and not before; until then its target is no data
//   - memory that nobody wrote is filled with a pattern, and reading it is a finding
//   - every access is held against the array it began in, and against its own size's alignment
//   - two threads that touch one byte without a barrier between them, one of them writing, are a
//     race: __syncthreads orders a block, __syncwarp the lanes of its mask, a launch's end all
//   - a thread of a launch with `overlaps` that touches, before it waits for earlier kernels, what
//     one of them may still write or read, or that never waits, is a finding
//   - lanes of one warp that meet in different operations, a mask that names a lane that does not
//     come, a barrier that some threads do not reach: each is a finding
//
// A finding names the kernel and its line; the launch ends with it. What cannot be found here: what
// a device's memory model does beyond that (fences, volatile), how tensor cores round, how fast
// anything is. Blocks of a launch run one after the other, so a block that waits for another one
// waits forever, and is found out as stuck.
//
// Registers are poisoned where kernels are compiled with -ftrivial-auto-var-init=pattern.
//
// Threads: one emulator at a time on a thread, which alone uses it. Several threads have several,
// as if each had a device of its own.
#pragma once

#include <tenon/cuda/machine.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon::cuda {

struct Region;
class Block;
class Emulator;

enum class FindingKind : uint8_t {
  out_of_bounds,
  misaligned,
  not_written,   // read although nobody wrote it
  not_landed,    // read, or written, while a cp.async was on its way there
  never_waited,  // a cp.async that its thread did not wait for
  race,
  too_early,          // touched, in a launch with `overlaps`, before wait_for_earlier
  no_wait,            // a thread of such a launch that ended without wait_for_earlier
  constant,           // a write to an array that is constant
  divergent_barrier,  // __syncthreads that some threads of the block do not reach
  divergent_warp,     // lanes that should meet and do not
  wrong_lane,         // a mask without the lane itself, a shuffle from a lane outside of the mask
  shared_memory,      // more of it than the launch has
  stuck,
  bad_launch,
};
const char* finding_name(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::bad_launch;
  std::string kernel;
  std::string file;
  uint32_t line = 0;
  std::string text;  // what was found, what was expected, what to do

  std::string message() const;  // "kernel 'x', file:line: race: …"
};

// What launches did. Bytes are those that threads asked for, whoever asked before; an atomic
// operation counts as a write. Arithmetic outside of mma is plain C++ and not counted.
struct Counts {
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t read_bytes = 0;     // from global memory, by kernels
  uint64_t written_bytes = 0;  // to global memory
  uint64_t shared_read_bytes = 0;
  uint64_t shared_written_bytes = 0;  // cp.async's zeros too
  uint64_t async_copies = 0;          // cp.async, one for a thread
  uint64_t mma = 0;                   // instructions, one for a warp
  uint64_t bf16_operations = 0;       // 2 · m · n · k of an mma, what is multiplied by zero too
  uint64_t f16_operations = 0;
  uint64_t s8_operations = 0;
  uint64_t barriers = 0;  // __syncthreads, one for a block
  // Different bytes of global memory, for each launch anew: what would move if nothing had to move
  // twice. What a launch wrote before it read it is no read. Only while launches are recorded.
  uint64_t touched_read_bytes = 0;
  uint64_t touched_written_bytes = 0;

  Counts& operator+=(const Counts& more);
  friend bool operator==(const Counts&, const Counts&) = default;
};

// One launch and what it did.
struct LaunchRecord {
  std::string name;
  const void* kernel = nullptr;  // the function
  Extent grid, block;
  uint32_t shared_bytes = 0;
  Counts counts;
};

// A launch of a kernel that waits for kernels of other devices (LaunchConfig::meets).
struct MeetingLaunch {
  Emulator* device = nullptr;
  LaunchConfig config;
  std::function<void()> thread;
};

enum class Content : uint8_t { variable, constant };

// A queue that is late: work that was put on it runs when somebody waits.
class LateQueue {
 public:
  void push(std::function<void()> work) { work_.push_back(std::move(work)); }
  void run_all();
  // The first of what waits. False where nothing does.
  bool run_one();
  // What waits, in order; it waits no longer.
  std::deque<std::function<void()>> take() { return std::exchange(work_, {}); }
  uint64_t waiting() const { return work_.size(); }

 private:
  std::deque<std::function<void()>> work_;
};

class Emulator {
 public:
  // Becomes the machine that Global<T> and launch refer to, until it is destroyed.
  explicit Emulator(uint64_t seed = 1);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Null when there is more than `limit_memory` allows. Aligned to 256; never next to another.
  std::byte* allocate(uint64_t bytes, const std::string& name);
  void free(void* at);
  void limit_memory(uint64_t bytes) { memory_limit_ = bytes; }
  uint64_t allocated_bytes() const { return allocated_; }

  // The host's accesses; a region that is constant from then on may not be written by kernels.
  // False where the range is no part of one allocation.
  bool copy_in(void* to, const void* from, uint64_t bytes, Content content = Content::variable);
  bool copy_out(void* to, const void* from, uint64_t bytes) const;
  bool copy_inside(void* to, const void* from, uint64_t bytes);
  // From another machine, whose kernels do not run meanwhile.
  bool copy_from(void* to, const Emulator& other, const void* from, uint64_t bytes);
  // Whether the range is part of one allocation, and all of it was written: what doubles of
  // libraries ask that read arrays in place of kernels.
  bool written(const void* at, uint64_t bytes) const;
  // Nothing stands in the whole array that begins there any more.
  bool forget(void* at);

  const std::vector<Finding>& findings() const { return findings_; }
  const Counts& counts() const { return counts_; }
  // From now on each launch is recorded, and which bytes it touched is counted, which is slow. With
  // Run::never no thread runs: a record is what a launch asks for, and its arrays need not be
  // there.
  enum class Run : uint8_t { always, never };
  void record_launches(Run run = Run::always) {
    recording_ = true;
    running_ = run == Run::always;
  }
  const std::vector<LaunchRecord>& records() const { return records_; }
  // Records summed up by the name of their launch.
  std::map<std::string, Counts> recorded_counts() const;

  // Kernels of this machine reach the other one's array that has `at`, as long as that is there.
  // False where it has none.
  bool reach(const Emulator& other, const void* at);
  // Becomes the machine of this thread again, where others were made since.
  void use();
  // Who gets launches that meet those of other devices, in place of running them; without anyone
  // they run alone.
  using Meeting = std::function<int(MeetingLaunch launch)>;
  void on_meeting(Meeting meeting) { meeting_ = std::move(meeting); }
  // Runs launches of several devices, [devices][launches]: a device's one after the other, those of
  // different devices at the same time, block by block in any order. What a kernel writes, others
  // see in order where a flag was released after a __syncthreads and acquired; else it is a race.
  // False: something was found, which is a finding of its device.
  static bool run_together(const std::vector<std::vector<MeetingLaunch>>& devices);

  static Emulator* current();
  // For the machine's own parts.
  Region* find(const void* at, int64_t& offset);
  int run(const LaunchConfig& config, const void* kernel, const std::function<void()>& thread);
  uint64_t random();
  Counts& count() { return launch_counts_; }
  enum class Touch : uint8_t { read, write };
  void touch(Region& region, int64_t offset, uint32_t bytes, Touch how);

 private:
  friend class Together;
  int run_blocks(const LaunchConfig& config, const std::function<void()>& thread);
  bool range(const void* at, uint64_t bytes, Region** region, int64_t& offset) const;

  std::map<const std::byte*, std::unique_ptr<Region>> regions_;
  std::vector<Finding> findings_;
  Counts counts_;
  Counts launch_counts_;  // of the launch that runs
  bool recording_ = false;
  bool running_ = true;
  std::vector<LaunchRecord> records_;
  Meeting meeting_;
  std::vector<Region*> reached_;  // of other machines
  uint64_t state_;
  uint64_t memory_limit_ = ~uint64_t{0};
  uint64_t allocated_ = 0;
  Emulator* before_;
};

}  // namespace tenon::cuda
