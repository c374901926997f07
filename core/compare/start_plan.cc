#include "core/compare/start_plan.h"

#include <algorithm>

#include "core/report/statistics/units.h"

namespace tenon::compare {
namespace {

constexpr double kMeasureShare = 2;  // for each second of a start
// So many make an interval nearly as narrow as its values allow: Student's factor at 99 % is 3.1 of
// 12 values, 2.6 of very many.
constexpr double kEnoughStarts = 12;

}  // namespace

void StartPlan::plan(double start_seconds, double pair_seconds, double seconds_left,
                     uint32_t pairs) {
  start_seconds_ = start_seconds;
  pair_seconds_ = pair_seconds;
  measure_seconds_ = 0;
  const double shortest = start_seconds + pair_seconds;
  if (shortest <= 0 || pairs < kFewestStarts) return;
  if (seconds_left < static_cast<double>(kFewestStarts) * shortest) return;
  const double of_enough =
      std::min(seconds_left / kEnoughStarts - start_seconds, pairs * pair_seconds / kEnoughStarts);
  measure_seconds_ = std::max(pair_seconds, std::min(kMeasureShare * start_seconds, of_enough));
}

bool StartPlan::is_due(double measured_seconds, double seconds_left) const {
  return measure_seconds_ > 0 && measured_seconds + pair_seconds_ / 2 >= measure_seconds_ &&
         seconds_left > start_seconds_ + pair_seconds_;
}

uint32_t StartPlan::starts_within(double seconds) const {
  if (measure_seconds_ <= 0) return 1;
  return std::max(1u, static_cast<uint32_t>(seconds / (start_seconds_ + measure_seconds_)));
}

}  // namespace tenon::compare
