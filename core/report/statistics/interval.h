// Intervals that hold a true value with a known probability.
//
// The unit of every comparison is one number a pair of pieces: the log of the ratio of what two
// arms measured, run one after the other on the same machine. The requests inside one piece share
// its machine, its cache and its queue, so they are never counted as independent.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tenon {

struct Interval {
  double estimate = 0;
  // Infinite where there are too few values to say anything on that side.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double confidence = 0.95;

  bool bounded() const { return std::isfinite(low) && std::isfinite(high); }
  bool holds(double value) const { return low <= value && value <= high; }
};

double mean_of(std::span<const double> values);                // 0 of none
double standard_deviation_of(std::span<const double> values);  // n - 1; 0 of fewer than two

// log(b / a) of each pair. Pairs in which one is not positive have no ratio and are left out.
std::vector<double> log_ratios(std::span<const double> a, std::span<const double> b);

// Of the mean: Student's t, exact for normal values.
Interval mean_interval(std::span<const double> values, double confidence);
// Of the mean: the studentised bootstrap (Efron and Tibshirani 1993, chapter 12.5), which follows
// skewed values. The same seed gives the same interval. Unbounded for fewer than four values.
Interval bootstrap_interval(std::span<const double> values, double confidence, uint64_t seed,
                            uint32_t resamples = 2000);
// Of mean(b) - mean(a) of unpaired values: Welch's t.
Interval difference_interval(std::span<const double> a, std::span<const double> b,
                             double confidence);

// Of the quantile `q` (0 < q < 1), whatever the distribution: two order statistics (Conover 1999,
// chapter 3.2). A side is unbounded where there are too few values: see samples_for_quantile().
Interval quantile_interval(std::span<const double> values, double q, double confidence);
// The fewest values with which both sides are bounded: 368 for q = 0.99 at 95 %.
size_t samples_for_quantile(double q, double confidence);

}  // namespace tenon
