// How a sweep divides its time between its loads.
//
// What one load does not need is for those after it. A load goes on beyond its share until it has
// the fewest pairs that say something, and takes half of what is left for that at most. Where its
// pairs take so long that there is no time for so many at each of the others, fewer are measured:
// as many as there is time for, spread evenly, the last one always.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/compare/comparison.h"
#include "core/report/sweep.h"

namespace tenon::compare {

class SweepShares {
 public:
  // `pairs`: the fewest that say something.
  SweepShares(SweepRange range, int64_t budget_ns, uint32_t pairs = kFewestPairs);

  struct Turn {
    double load = 0;
    int64_t share_ns = 0;   // ends there, once it has the fewest pairs
    int64_t budget_ns = 0;  // ends there in any case
  };
  // Null: there are no more.
  std::optional<Turn> next() const;
  // The load of next() has been measured and took so long in all, `pair_ns` for each of `pairs`;
  // 0: not even one was done.
  void took(int64_t ns, int64_t pair_ns, uint32_t pairs);

  // Those that there was no time for, rising.
  const std::vector<double>& left_out() const { return left_out_; }
  // How long all loads would take with the fewest pairs at each, as far as is known.
  int64_t needed_ns() const;

 private:
  // With the fewest pairs, after what the latest load has shown.
  double needed_at(double load) const;
  void thin_out();

  const SweepOf what_;
  const uint32_t pairs_;
  std::vector<double> loads_;  // to come
  std::vector<double> left_out_;
  int64_t left_ns_;
  double load_ = 0, setup_ns_ = 0, pair_ns_ = 0;  // of the latest one
  double needed_ns_ = 0;                          // of those that were measured
};

}  // namespace tenon::compare
