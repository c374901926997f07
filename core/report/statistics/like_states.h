// Which two pieces make a pair: those that met the machine in one state.
#pragma once

#include "core/report/statistics/measured.h"

namespace tenon {

// Pieces in turns of a few steps always make one, and so do pieces of less than 0.1 s: whatever the
// machine did, it did it to both.
// Of two that ran one after the other, two things are held against each other.
//
// The share of the processors that a piece was given, while it worked. Threads that wait for each
// other at every layer lose two to three times the time that one of them lost, so shares may differ
// by a third of `unlike` only.
//
// The rates of the machine around it (the geometric mean of before and after). A probe of a few
// hundredths of a second is noisy itself: where states of neighbouring pieces usually differ by
// more than `unlike`, that is the machine's own unrest and tells nothing of a pair. Then only a
// difference of three times the usual one is a change (docs/experiments/024-comparing.md).
class LikeStates {
 public:
  explicit LikeStates(const MeasuredComparison& measured);

  bool alike(const MeasuredPiece& a, const MeasuredPiece& b) const;
  // For two stretches of several pieces: the first one's state before, the last one's after.
  bool alike(const MeasuredPiece& a_first, const MeasuredPiece& a_last,
             const MeasuredPiece& b_first, const MeasuredPiece& b_last) const;

 private:
  double most_;  // between two states
  double most_share_;
};

}  // namespace tenon
