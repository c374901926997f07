// Shares out one call's work between workers that do not run equally fast: a neighbour on the same
// core, an interrupt or a slower core holds one up, and the others would wait at the barrier.
//
// Each worker has a range of parts side by side and takes half of what is left of it at a time,
// from the front. One that has none left takes half of another's, from the back. So a worker walks
// memory from front to back, most claims touch no other worker's cache line, and the last parts to
// be handed out are single ones. (Guided self-scheduling: Polychronopoulos and Kuck 1987.)
#pragma once

#include <tenon/linear.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace tenon {

class WorkQueue {
 public:
  static constexpr uint32_t kMaxParts = (1u << 22) - 1;

  explicit WorkQueue(uint32_t workers);

  // Later calls are shared out between so many workers, at most those of the constructor. Threads:
  // the one between two calls.
  void share_between(uint32_t workers) { workers_ = workers; }

  // Another range of the `parts` parts of call number `call` for this worker; false when all are
  // handed out. Threads: [worker]. All workers ask until they get false, with equal arguments, and
  // meet at a barrier before the next call, whose number is the next.
  bool next(uint32_t worker, uint32_t call, uint32_t parts, WorkRange& range) noexcept;

 private:
  // {call, first, last} of the range that is left, in 20, 22 and 22 bits. The first to look at a
  // worker's range in a new call opens it.
  struct alignas(64) Left {
    std::atomic<uint64_t> value{0};
  };
  bool take(uint32_t owner, bool from_front, uint32_t call, WorkRange& range) noexcept;

  uint32_t workers_;
  std::unique_ptr<Left[]> left_;
};

}  // namespace tenon
