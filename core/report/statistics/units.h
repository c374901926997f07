// What an interval of a comparison is over: starts of both arms, or pairs.
//
// Where a process's memory happens to lie is a part of all that it measures, by a few percent with
// small models, and stays as it is while the process runs. Pairs of the same two processes share
// it, so that together they are one unit of an interval that is to hold it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/report/statistics/analysis.h"
#include "core/report/statistics/measured.h"
#include "core/report/statistics/metrics.h"

namespace tenon {

// What two processes of one pipeline differ by at most, because of where their memory lies: four
// times the deviation that was seen (docs/experiments/024-comparing.md).
inline constexpr double kOfPlaces = 0.1;
// Fewer starts than these have no useful interval.
inline constexpr size_t kFewestStarts = 5;

// A metric of the pairs that have it.
struct PairValues {
  std::vector<double> base = {}, arm = {};
  std::vector<double> log_ratios = {};
  std::vector<double> units = {};  // what an interval is over
  // Pairs of one start, or of few: what memory does is in all of them, so that a difference must be
  // beyond kOfPlaces to be one.
  bool of_few_starts = false;
};
PairValues values_of(const PiecePairs& pairs, const Metric& metric, const MeasuredPlan& plan);

// How many starts of both arms these pairs are of.
size_t starts_of(const PiecePairs& pairs);

}  // namespace tenon
