// The sequences that the engine knows: who waits, and who runs.
#pragma once

#include <tenon/scheduler.h>

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/engine/requests/sequence.h"

namespace tenon {

// Owns all live sequences. Waiting ones stand in order of arrival, running ones in order of
// admission.
class SequenceTable {
 public:
  Sequence& add(RequestState& request, uint32_t sample, int64_t arrival_ns);
  Sequence* find(SeqId id) {
    Sequence* const recent = recent_[id % kRecent];
    return recent != nullptr && recent->id == id && recent->state != SequenceState::ended
               ? recent
               : find_any(id);
  }
  // Ends its place in the lists; the object is freed by `sweep`.
  void end(Sequence& sequence);

  // waiting → running, last or right behind another one.
  void admit(Sequence& sequence, const Sequence* behind = nullptr);
  void preempt(Sequence& sequence);  // running → waiting, at its arrival
  // Frees ended sequences; while a step is in flight, those that ended before the last sweep.
  void sweep(bool in_flight);

  const std::vector<Sequence*>& waiting() const { return waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }
  // Running ones that go on running, as far as that is known.
  uint32_t staying() const;
  bool empty() const { return waiting_.empty() && running_.empty(); }
  // All live ones, waiting first. For rare operations.
  std::vector<Sequence*> all() const;

 private:
  static constexpr size_t kRecent = 256;
  Sequence* find_any(SeqId id);
  void erase(SeqId id);

  std::unordered_map<SeqId, std::unique_ptr<Sequence>> by_id_;
  std::array<Sequence*, kRecent> recent_ = {};  // by the last bits of their ids
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> running_;
  std::vector<SeqId> ended_, ended_before_;
  SeqId next_id_ = 0;
};

// The row that draws the token at `position`, without logits. `history` is what the sequence knows
// and perhaps drafts behind it.
SampleRow sample_row_of(const Sequence& sequence, std::span<const TokenId> history,
                        uint32_t position);
// The scheduler's picture of one sequence.
SequenceView view_of(const Sequence& sequence);
// What became of it, for the scheduler.
SequenceEvent event_of(EventKind kind, const Sequence& sequence, uint64_t step_id);

}  // namespace tenon
