// Orders of service: running sequences sorted by a policy, waiting ones as a queue.
#pragma once

#include <tenon/scheduler.h>
#include <tenon/sdk/scheduler/options.h>

#include <algorithm>
#include <span>
#include <vector>

namespace tenon::sdk {

// Where a sequence stands: lower goes first, then the earlier arrival, then the lower id.
struct PolicyKey {
  double rank = 0.0;
  int64_t arrival_ns = 0;
  SeqId seq = kNoSeq;
  uint32_t index = 0;  // in the view's list

  bool operator<(const PolicyKey& other) const {
    if (rank != other.rank) return rank < other.rank;
    if (arrival_ns != other.arrival_ns) return arrival_ns < other.arrival_ns;
    return seq < other.seq;
  }
};

// A sequence's rank never changes while it lives, so neither does who goes before whom.
inline PolicyKey policy_key(Policy policy, const SequenceView& sequence, size_t index) {
  PolicyKey key{0.0, sequence.arrival_ns, sequence.seq, static_cast<uint32_t>(index)};
  if (policy == Policy::priority) key.rank = sequence.priority;
  if (policy == Policy::shortest_first) key.rank = sequence.prompt_tokens;
  return key;
}

// Keys of `sequences` in the policy's order.
inline void sort_by_policy(Policy policy, std::span<const SequenceView> sequences,
                           std::vector<PolicyKey>& keys) {
  keys.clear();
  bool sorted = true;
  for (size_t i = 0; i < sequences.size(); ++i) {
    keys.push_back(policy_key(policy, sequences[i], i));
    sorted = sorted && (i == 0 || keys[i - 1] < keys[i]);
  }
  if (!sorted) std::sort(keys.begin(), keys.end());
}

// Those that wait, best first. Only as many are put in order as are asked for.
class PolicyQueue {
 public:
  void begin(Policy policy, std::span<const SequenceView> waiting) {
    waiting_ = waiting;
    next_ = 0;
    in_order_ = policy == Policy::fcfs;  // as the view is
    heap_.clear();
    if (in_order_) return;
    for (size_t i = 0; i < waiting.size(); ++i) {
      heap_.push_back(policy_key(policy, waiting[i], i));
    }
    std::make_heap(heap_.begin(), heap_.end(), after);
  }
  // Null when there are no more.
  const SequenceView* next() {
    if (in_order_) return next_ < waiting_.size() ? &waiting_[next_++] : nullptr;
    if (heap_.empty()) return nullptr;
    std::pop_heap(heap_.begin(), heap_.end(), after);
    const uint32_t index = heap_.back().index;
    heap_.pop_back();
    return &waiting_[index];
  }

 private:
  static bool after(const PolicyKey& a, const PolicyKey& b) { return b < a; }

  std::span<const SequenceView> waiting_;
  size_t next_ = 0;
  bool in_order_ = true;
  std::vector<PolicyKey> heap_;
};

}  // namespace tenon::sdk
