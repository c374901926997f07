// How often intervals of comparisons in recorded noise are as a test asks.
#pragma once

#include "core/report/statistics/sequence.h"
#include "core/report/statistics/verdict.h"

namespace tenon {

inline constexpr int kExperiments = 2000;

// Of so many experiments of `count` log ratios, those whose interval at the planned end is so.
// `Noise` has log_ratios(count).
template <typename Noise, typename Ask>
double share(Noise noise, int count, double confidence, const Ask& ask) {
  int yes = 0;
  for (int i = 0; i < kExperiments; ++i) {
    yes += ask(planned_interval(noise.log_ratios(count), confidence, kLooks, true)) ? 1 : 0;
  }
  return static_cast<double>(yes) / kExperiments;
}
inline bool holds_none(const Interval& interval) {
  return interval.holds(0);
}
inline bool is_worse(const Interval& interval) {
  return judge(interval, kVerdictMargin, 0, Better::lower) == Verdict::worse;
}

}  // namespace tenon
