#include "core/base/threads/work_queue.h"

namespace tenon {
namespace {

constexpr uint32_t kCallMask = (1u << 20) - 1;

constexpr uint64_t pack(uint32_t call, uint32_t first, uint32_t last) {
  return uint64_t{call & kCallMask} << 44 | uint64_t{first} << 22 | last;
}
constexpr uint32_t call_of(uint64_t left) {
  return static_cast<uint32_t>(left >> 44);
}
constexpr uint32_t first_of(uint64_t left) {
  return static_cast<uint32_t>(left >> 22) & WorkQueue::kMaxParts;
}
constexpr uint32_t last_of(uint64_t left) {
  return static_cast<uint32_t>(left) & WorkQueue::kMaxParts;
}

}  // namespace

// No call has the number that the ranges start with before 2^20 others have opened them.
WorkQueue::WorkQueue(uint32_t workers)
    : workers_(workers), left_(std::make_unique<Left[]>(workers)) {
  for (uint32_t w = 0; w < workers; ++w) left_[w].value = pack(kCallMask, 0, 0);
}

bool WorkQueue::next(uint32_t worker, uint32_t call, uint32_t parts, WorkRange& range) noexcept {
  range.count = parts;
  range.worker = worker;
  if (take(worker, true, call, range)) return true;
  for (uint32_t i = 1; i < workers_; ++i) {
    if (take((worker + i) % workers_, false, call, range)) return true;
  }
  return false;
}

// Relaxed: only the claim itself is agreed on here; what parts read and write is ordered by the
// barriers around a call.
bool WorkQueue::take(uint32_t owner, bool from_front, uint32_t call, WorkRange& range) noexcept {
  std::atomic<uint64_t>& left = left_[owner].value;
  uint64_t seen = left.load(std::memory_order_relaxed);
  for (;;) {
    uint32_t first = first_of(seen);
    uint32_t last = last_of(seen);
    if (call_of(seen) != (call & kCallMask)) {
      first = static_cast<uint32_t>(uint64_t{range.count} * owner / workers_);
      last = static_cast<uint32_t>(uint64_t{range.count} * (owner + 1) / workers_);
    }
    if (first >= last) return false;
    const uint32_t taken = (last - first + 1) / 2;
    const uint32_t border = from_front ? first + taken : last - taken;
    const uint64_t rest = from_front ? pack(call, border, last) : pack(call, first, border);
    if (left.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) {
      range.first = from_front ? first : border;
      range.last = from_front ? border : last;
      return true;
    }
  }
}

}  // namespace tenon
