// What a series of measurements says about itself: where its warm-up ends, and whether it drifts.
#pragma once

#include <cstddef>
#include <span>

namespace tenon {

// How many values at the beginning to leave out: the cut that leaves the smallest standard error of
// the mean of what follows, over means of `batch` values (MSER-5; White 1997). At most half of the
// series is ever cut. Needs at least 2 * batch values, else 0.
size_t warm_up_of(std::span<const double> values, size_t batch = 5);

// Kendall's tau of the values against their order, and how likely it is without a trend
// (Mann-Kendall; normal approximation, ties counted). Fewer than eight values show none.
struct Trend {
  double tau = 0;
  double p = 1;  // two-sided
};
Trend trend_of(std::span<const double> values);

// An open loop is saturated where requests wait longer the later they come: the wait grows with
// p < 0.01, and the last third waits at least twice as long as the first.
bool is_saturated(std::span<const double> waits_in_order_of_arrival);

}  // namespace tenon
