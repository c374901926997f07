// The ledger's part for sequences that have their memory together (AnswerTraits::grouped).
#include <algorithm>

#include "core/engine/memory/ledger.h"

namespace tenon {

// Of the same group: whoever has something to compute and was not granted anything yet. Where that
// fails, what the others took stays with them until the plan is made: what is given back while a
// step is planned is free only when that step is done, and the scheduler may ask again.
bool Ledger::grow_siblings(const Sequence& sequence) {
  for (Sequence* sibling : sequence.answer->group()) {
    if (sibling->answer->held_back() || sibling->growth.in_plan) continue;
    const uint32_t left = sibling->known_ahead() - sibling->computed_ahead();
    if (grow(*sibling, left, left).granted == 0) return false;
  }
  return true;
}

// Not what was granted; but a group of which only some could grow was not.
bool Ledger::may_release(std::span<Sequence* const> group) {
  bool granted = true;
  for (const Sequence* one : group) {
    if (one->in_flight > 0) return false;
    granted &= one->answer->held_back() || one->growth.in_plan;
  }
  return !granted;
}

// What a group shares would be moved to the host, and back, once for each: it is computed again.
// And none is given up for another one of its group, which could do nothing without it.
bool Ledger::release_group(Sequence& sequence, ReleaseHow how) {
  const std::span<Sequence* const> group = sequence.answer->group();
  const bool for_sibling =
      refused_ != nullptr && refused_ != &sequence && refused_->request == sequence.request;
  if (how == ReleaseHow::swap || for_sibling) return false;
  if (!may_release(group)) return false;
  for (Sequence* sibling : group) {
    if (!sibling->growth.in_plan) continue;
    std::erase(grown_, sibling);
    sibling->growth = {};
  }
  note(sequence.answer->release(), sequence.id);
  if (sequence.state == SequenceState::running) return false;
  ++preemptions_;
  return true;
}

}  // namespace tenon
