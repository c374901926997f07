// When arms are started anew where nobody said after how many pairs.
//
// A start costs what loading and warming up take, so arms are measured for twice as long as that
// before the next one, or for less where the budget, or the most pairs, would hold too few starts
// (each start is one value of an interval). Where they would hold fewer than kFewestStarts, nothing
// is started anew.
#pragma once

#include <cstdint>

namespace tenon::compare {

class StartPlan {
 public:
  // Seconds that one start of all arms takes, that a pair of each with the base takes, and that are
  // left for all of it; at most `pairs` are run.
  void plan(double start_seconds, double pair_seconds, double seconds_left, uint32_t pairs);
  // Whether arms that were measured for so long are started anew now.
  bool is_due(double measured_seconds, double seconds_left) const;
  // Of all arms, within `seconds`; 1 where they are not started anew.
  uint32_t starts_within(double seconds) const;

 private:
  double start_seconds_ = 0, pair_seconds_ = 0;
  double measure_seconds_ = 0;  // after a start; 0: none follows
};

}  // namespace tenon::compare
